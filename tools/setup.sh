#!/usr/bin/env bash
# Prepares this machine for the checkout: Python environment, kubernetes.core, links, container engine, kind, kustomize.
# Safe to repeat; what is there already costs nothing. It stops early where less is asked for: `setup.sh python` before anything is
# compiled, `setup.sh kustomize` before anything needs a container engine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

kind_version=v0.33.0 kustomize_version=v5.8.1 kubernetes_core=6.6.0 ansible_wheel=14.5.0

# Said in the first second, not after minutes of downloads.
need_go() { command -v go > /dev/null || die "$1 is built from its Go module: install Go 1.24 or newer and put it on PATH."; }
if [ "${1:-}" != python ]; then
  [ -x "$bin/kustomize-$kustomize_version" ] || need_go "kustomize $kustomize_version"
  [ "${1:-}" = kustomize ] || [ -x "$bin/kind-$kind_version" ] || need_go "kind $kind_version"
fi

python() { # the newest Python that ansible-core 2.19 to 2.21 run on
  local version candidate
  for version in 3.13 3.12 3.11; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/$version.*/bin/python3 python3; do
      if command -v "$candidate" > /dev/null && "$candidate" -c \
        "import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2> /dev/null; then
        command -v "$candidate"
        return
      fi
    done
  done
  return 1
}

interpreter=$(python) || { is_debian_root && apt_install python3 python3-venv && interpreter=$(python); } \
  || die "no Python 3.11, 3.12 or 3.13 with venv found. Install one (Debian: python3 python3-venv)."
venv=$cache/venv-$("$interpreter" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$(digest "$root/tools/requirements.txt")-$kubernetes_core
exec 9> "$cache/setup.lock"
flock 9 # two runs at once would remove each other's half of an environment
if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  step "Creating the Python environment" "$interpreter" -m venv "$venv"
  step "Installing ansible-core, kubernetes, molecule, linters (pinned in tools/requirements.txt)" \
    "$venv/bin/pip" install --disable-pip-version-check -r "$root/tools/requirements.txt"
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  collection() { # from Galaxy where it answers, else out of the wheel of the `ansible` package
    timeout 60 "$venv/bin/ansible-galaxy" collection install --timeout 10 -p "$site" "kubernetes.core:==$kubernetes_core" && return
    rm -rf "$cache/wheel" "$site/ansible_collections/kubernetes"
    "$venv/bin/pip" download --disable-pip-version-check --no-deps --ignore-requires-python -d "$cache/wheel" "ansible==$ansible_wheel"
    (cd "$site" && "$venv/bin/python" -c '
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
wheel.extractall(members=[n for n in wheel.namelist() if n.startswith("ansible_collections/kubernetes/core/")])' "$cache"/wheel/ansible-*.whl)
    rm -rf "$cache/wheel"
  }
  step "Installing the collection kubernetes.core $kubernetes_core" collection
  touch "$venv/complete"
fi
flock -u 9
ln -sfn "$venv" "$root/.venv"

# The checkout is the collection: playbooks find it by the folder `collections` beside them, tools by the one in the root.
for place in "$root" "$root/playbooks"; do
  mkdir -p "$place/collections/ansible_collections/inferops"
  ln -sfn "$root" "$place/collections/ansible_collections/inferops/dynamo"
done
[ "${1:-}" = python ] && exit 0

go_install() { # NAME PACKAGE@VERSION
  local kept=$bin/$1-${2##*@}
  if [ ! -x "$kept" ]; then
    step "Building $1 ${2##*@}" env GOBIN="$cache/gobin" CGO_ENABLED=0 go install -ldflags '-s -w' "$2"
    mv "$cache/gobin/$1" "$kept"
  fi
  ln -sfn "$kept" "$bin/$1"
}
go_install kustomize "sigs.k8s.io/kustomize/kustomize/v5@$kustomize_version"
[ "${1:-}" = kustomize ] && exit 0
go_install kind "sigs.k8s.io/kind@$kind_version"
bash "$root/tools/engine.sh"
