#!/usr/bin/env bash
# Copyright (c) 2026, inferops.dynamo contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Builds the one image that every pod of the lab runs, and prints its tag.
#   build.sh CACHE_DIR BASE
# BASE: any image with Python 3.11 as `python3` (python:3.11-slim, or the offline Debian 12 root).
# The tag is a hash of all inputs: an image that is there already is not built again.
# The wheels are unpacked here, by the PYTHON of this machine (any version that has pip), so that the image needs neither
# pip nor a route to a registry, and keeps no address of one. DOCKER (default: docker) may name another engine's CLI.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(mkdir -p "${1:?CACHE_DIR}" && cd "$1" && pwd)
base=${2:?BASE}
python=${PYTHON:-python3}
docker=${DOCKER:-docker}
arch=$(uname -m)

say() { echo "lab image: $*" >&2; }

# Runs a command; says every 10 s that it still runs. Its output is shown only when it fails.
quietly() { # what is being done, command...
  local what=$1 start=$SECONDS log ticker rc=0
  shift
  log=$(mktemp)
  say "$what"
  (while sleep 10; do say "$what: $((SECONDS - start)) s"; done) &
  ticker=$!
  "$@" > "$log" 2>&1 || rc=$?
  kill "$ticker" 2> /dev/null || true
  wait "$ticker" 2> /dev/null || true
  [ "$rc" -eq 0 ] || { cat "$log" >&2; say "failed: $what"; }
  rm -f "$log"
  return "$rc"
}

base_id=$($docker image inspect --format '{{.Id}}' "$base" 2> /dev/null) || {
  quietly "pulling $base" "$docker" pull "$base"
  base_id=$($docker image inspect --format '{{.Id}}' "$base")
}
site=$cache/site-$(sha256sum "$here/requirements.txt" | cut -c1-12)-$arch
hash=$({ echo "$base_id $arch"; cd "$here"; sha256sum Dockerfile build.sh requirements.txt ./*.py; } | sha256sum | cut -c1-12)
tag=inferops/lab-runtime:$hash

if $docker image inspect "$tag" > /dev/null 2>&1; then
  echo "$tag"
  exit
fi

if [ ! -d "$site" ]; then
  rm -rf "$cache"/site-*
  platforms=(any)
  for glibc in 28 17; do platforms+=("manylinux_2_${glibc}_$arch"); done
  platforms+=("manylinux2014_$arch")
  # One call for all wheels: two of them own the folder `dynamo`, and a second call would replace it.
  quietly "unpacking the wheels of requirements.txt (about 75 MB)" "$python" -m pip install --quiet --no-deps --no-compile \
    --only-binary=:all: --implementation cp --python-version 3.11 "${platforms[@]/#/--platform=}" \
    --target "$site.part" --requirement "$here/requirements.txt"
  rm -rf "$site.part/bin"
  mv "$site.part" "$site"
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp -r --link "$site" "$context/site" 2> /dev/null || cp -r "$site" "$context/site"
cp "$here"/Dockerfile "$here"/*.py "$context/"
DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0} quietly "building $tag on $base" "$docker" build --quiet --build-arg BASE="$base" --tag "$tag" "$context"
echo "$tag"
