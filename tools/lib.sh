# Sourced by the scripts of this folder: where things are kept, and how they speak.
# Everything that takes long runs under `step`, so that a person watching sees a line at least every 10 s.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${INFEROPS_CACHE:-$HOME/.cache/inferops-dynamo}
bin=$cache/bin
mkdir -p "$bin" "$cache/log"

say() { printf '%s\n' "$*" >&2; }

die() { say "ERROR: $*"; exit 1; }

step() { # TEXT COMMAND...: runs COMMAND with its output in a log; its last line is shown while it runs, its end when it fails
  local text=$1 log=$cache/log/${1//[^A-Za-z0-9.]/-}.log begin=$SECONDS next=$((SECONDS + 10)) pid
  shift
  say "$text"
  "$@" > "$log" 2>&1 < /dev/null &
  pid=$!
  while kill -0 "$pid" 2> /dev/null; do
    sleep 1
    if (( SECONDS >= next )) && kill -0 "$pid" 2> /dev/null; then
      say "  ... $((SECONDS - begin)) s: $(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^ *$' | tail -n 1 | cut -c 1-90)"
      next=$((SECONDS + 10))
    fi
  done
  if ! wait "$pid"; then
    tail -n 20 "$log" >&2
    die "$text failed after $((SECONDS - begin)) s; all of its output: $log"
  fi
}

digest() { # FILE...: 8 hex of their contents and names, whatever the folder they lie in
  for file in "$@"; do printf '%s\n' "${file##*/}"; cat "$file"; done | sha256sum | cut -c 1-8
}

is_debian_root() { [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; }

apt_install() { # PACKAGE...: those that are missing
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  (( ${#missing[@]} )) || return 0
  step "Installing Debian packages: ${missing[*]}" bash -c \
    'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"' -- "${missing[@]}"
}
