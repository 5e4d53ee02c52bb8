#!/usr/bin/env bash
# Builds an image with AIPerf for the long tests, loads it into the lab's cluster, and prints its tag.
#   build.sh BASE CLUSTER      BASE: the lab's runtime image; CLUSTER: name of the kind cluster
# 1.2 GB: it is kept out of the lab's own images and made where the long tests run. The wheels are unpacked once, under the cache.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
here=$root/tools/aiperf-image base=$1 cluster=$2
python=$root/.venv/bin/python
site=$cache/aiperf-$(digest "$here/requirements.txt")-$(uname -m)
tag=inferops/aiperf-lab:$({ docker image inspect -f '{{.Id}}' "$base"; cat "$here"/*; } | sha256sum | cut -c1-12)

if [ ! -d "$site" ]; then
  rm -rf "$cache"/aiperf-*
  platforms=(any)
  for glibc in 28 27 24 17; do platforms+=("manylinux_2_${glibc}_$(uname -m)"); done
  platforms+=("manylinux2014_$(uname -m)" "manylinux1_$(uname -m)")
  step "Unpacking AIPerf's wheels" "$python" -m pip install --no-deps --no-compile --only-binary=:all: --implementation cp \
    --python-version 3.11 "${platforms[@]/#/--platform=}" --target "$site.part" --requirement "$here/requirements.txt" >&2
  mv "$site.part" "$site"
fi
if ! docker image inspect "$tag" > /dev/null 2>&1; then
  context=$(mktemp -d -p "$cache")
  trap 'rm -rf "$context"' EXIT
  cp -r --link "$site" "$context/site"
  cp "$here/Dockerfile" "$context/"
  step "Building $tag" env DOCKER_BUILDKIT=0 docker build --quiet --build-arg "BASE=$base" --tag "$tag" "$context" >&2
fi
node=$cluster-control-plane
if ! docker exec "$node" crictl inspecti -q "docker.io/$tag" > /dev/null 2>&1; then
  # piped, since an archive of it would need another 1.2 GB
  load() { docker save "$tag" | docker exec -i "$node" ctr -n k8s.io images import - ; }
  step "Loading $tag into $node" load >&2
fi
docker images --format '{{.Repository}}:{{.Tag}}' inferops/aiperf-lab | grep -vxF "$tag" | xargs -r docker rmi > /dev/null 2>&1 || true
echo "$tag"
