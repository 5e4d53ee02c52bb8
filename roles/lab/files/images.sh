#!/usr/bin/env bash
# images.sh NODE_IMAGE BUILDER CACHE: makes the images of the lab and prints two names: the runtime image of every pod, and the node
# image with the runtime image in its store (a `kind load` of it would take 40 s for each cluster).
# NODE_IMAGE is used where it is or can be pulled; otherwise BUILDER (a script that prints the name of the image it made) is run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
node=$1 builder=$2 cache=$3
export DOCKER_BUILDKIT=0

if docker image inspect "$node" > /dev/null 2>&1 || timeout 900 docker pull -q "$node" >&2; then
  base=python:3.11-slim
else
  [ -n "$builder" ] || { echo "$node can't be pulled, and lab_node_image_builder names nothing that builds one" >&2; exit 1; }
  node=$("$builder" | tail -n 1)
  base=inferops/debian:bookworm
fi
runtime=$("$here/image/build.sh" "$cache" "$base" | tail -n 1)

baked=inferops/lab-node:$(docker image inspect -f '{{.Id}}' "$node" "$runtime" | sha256sum | cut -c 1-12)
if ! docker image inspect "$baked" > /dev/null 2>&1; then
  echo "putting $runtime into the node image" >&2
  archive=$(mktemp) work=inferops-lab-bake
  trap 'rm -f "$archive"; docker rm -f $work > /dev/null 2>&1 || true' EXIT
  docker rm -f $work > /dev/null 2>&1 || true
  docker save "$runtime" -o "$archive"
  docker run -d --name $work --privileged --entrypoint sleep --tmpfs /run -v "$archive:/image.tar:ro" "$node" infinity > /dev/null
  docker exec --privileged $work bash -c '
    containerd > /tmp/containerd.log 2>&1 &
    until ctr version > /dev/null 2>&1; do sleep 0.5; done
    ctr -n k8s.io images import /image.tar > /dev/null
    kill $!; wait $! || true; rm -f /tmp/containerd.log' >&2
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' $work "$baked" > /dev/null
  echo "built $baked" >&2
fi
# Earlier versions take 700 MB each; those that a cluster still runs stay.
docker images --format '{{.Repository}}:{{.Tag}}' 'inferops/lab-*' | grep -vxF -e "$runtime" -e "$baked" | xargs -r docker rmi > /dev/null 2>&1 || true
printf '%s\n' "$runtime" "$baked"
