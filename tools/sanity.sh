#!/usr/bin/env bash
# ansible-test sanity and units, from a copy of the checkout (ansible-test refuses links), without a container engine.
#   tools/sanity.sh                  the lowest and the newest ansible-core that this machine's Pythons run
#   tools/sanity.sh 2.18 2.19 ...    these; `all` is every supported one. Without the Python for one it is skipped, by name
# Environments are kept in the cache folder, one per ansible-core. Your own ~/.ansible is not used.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

declare -A python_of=([2.18]=3.11 [2.19]=3.11 [2.20]=3.12 [2.21]=3.13)

find_python() { # VERSION: path of that interpreter
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
    if command -v "$candidate" > /dev/null && "$candidate" -c \
      "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2> /dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

core_environment() { # SERIES PYTHON: creates $cache/core-SERIES
  rm -rf "$cache/core-$1"
  "$2" -m venv "$cache/core-$1"
  "$cache/core-$1/bin/pip" install --disable-pip-version-check \
    "ansible-core~=$1.0" kubernetes==37.0.2 PyYAML==6.0.4 pytest==9.1.1 pytest-xdist
  touch "$cache/core-$1/complete"
}

test_home() { # SERIES: a home of our own for ansible-test, with what it would download from a host that is often closed
  local home=$cache/ansible-test version
  mkdir -p "$home/.ansible/test/cache"
  for place in .config .pip; do [ ! -e "$HOME/$place" ] || ln -sfn "$HOME/$place" "$home/$place"; done
  # ansible-test bootstraps the pip of its environments by a script whose name has pip's version; ensurepip does as well.
  version=$("$cache/core-$1/bin/python" - << 'PY'
from ansible_test._internal.python_requirements import get_venv_packages
from types import SimpleNamespace
import sys
python = SimpleNamespace(version="%d.%d" % sys.version_info[:2], version_info=sys.version_info[:2])
print(get_venv_packages(python)["pip"].replace(".", "_"))
PY
  )
  cat > "$home/.ansible/test/cache/get_pip_$version.py" << 'PY'
import ensurepip
ensurepip.bootstrap(default_pip=True)
PY
  printf '%s\n' "$home"
}

copy_checkout() { # DIRECTORY: what git knows or would add, but not tools/: it is not shipped, and a node image needs other shebangs
  local place=$1/ansible_collections
  mkdir -p "$place/inferops/dynamo" "$place/kubernetes"
  (cd "$root" && git ls-files -z --cached --others --exclude-standard -- . ':!tools' \
    | while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done \
    | tar --null -T - -cf -) | tar -xf - -C "$place/inferops/dynamo"
  # units import the client of kubernetes.core; sanity leaves other collections alone
  cp -r "$("$root/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ansible_collections/kubernetes/core" "$place/kubernetes/core"
}

run() { # SERIES PYTHON_VERSION
  local work home rc=0
  work=$(mktemp -d)
  home=$(test_home "$1")
  copy_checkout "$work"
  (
    cd "$work/ansible_collections/inferops/dynamo"
    export HOME=$home PATH=$cache/core-$1/bin:$PATH
    step "ansible-test sanity, ansible-core $1, Python $2" ansible-test sanity --python "$2" --color no
    step "ansible-test units, ansible-core $1, Python $2" ansible-test units --python "$2" --color no
  ) || rc=$?
  rm -rf "$work"
  return "$rc"
}

wanted=("$@")
if [ "${1:-}" = all ]; then wanted=(2.18 2.19 2.20 2.21); fi
if [ ${#wanted[@]} = 0 ]; then
  for series in 2.18 2.19 2.20 2.21; do
    if find_python "${python_of[$series]}" > /dev/null; then wanted+=("$series"); fi
  done
  [ ${#wanted[@]} -gt 0 ] || die "no Python 3.11, 3.12 or 3.13 found: nothing to run ansible-test with"
  if [ ${#wanted[@]} -gt 1 ]; then wanted=("${wanted[0]}" "${wanted[-1]}"); fi
fi
for series in "${wanted[@]}"; do
  version=${python_of[$series]:?"ansible-core $series is not supported: choose from ${!python_of[*]}"}
  if ! interpreter=$(find_python "$version"); then
    say "SKIPPED: ansible-test with ansible-core $series, because this machine has no Python $version"
    continue
  fi
  [ -e "$cache/core-$series/complete" ] || step "Installing ansible-core $series" core_environment "$series" "$interpreter"
  run "$series" "$version"
done
