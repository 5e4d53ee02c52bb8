#!/usr/bin/env bash
# Builds a kind node image and its Debian base from package registries alone, for machines that reach no image registry:
# Kubernetes, etcd, CoreDNS and crictl from their Go modules, the root file system from Debian's packages.
# As root, with a Docker engine up. Prints the image's name as the last line. Binaries and images are kept by version in the cache:
# the first run compiles for 12 to 25 minutes on two cores, later ones take a second.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
here=$root/tools/node-image
kube=v1.34.4 kind=v0.33.0 etcd=v3.6.14 coredns=v1.12.1 crictl=v1.34.0
etcd_tag=3.6.5-0 pause_tag=3.10.1            # what `kubeadm config images list` asks for
base=inferops/debian:bookworm
image=inferops/kind-node:$kube-$(digest "$here"/{build.sh,Dockerfile,runc-bounded,pause.c,10-bridge.conflist,default-cni.yaml,default-storage.yaml})
kept=$cache/node-$kube
archive=$kept/${image##*:}.tar

if docker image inspect "$image" "$base" > /dev/null 2>&1; then echo "$image"; exit 0; fi
if [ -e "$archive" ]; then
  step "Loading the node image of Kubernetes $kube from the cache" docker load -i "$archive"
  echo "$image"
  exit 0
fi

is_debian_root || die "the node image is built from Debian's packages, as root; here make kindest/node:$kube pullable instead."
command -v go > /dev/null || die "the node image is compiled from Go modules: install Go 1.24 or newer and put it on PATH."
apt_install debootstrap jq gcc libc6-dev
export CGO_ENABLED=0 GOFLAGS=-mod=mod GOTOOLCHAIN=local GOBIN=$kept/bin DOCKER_BUILDKIT=0
mkdir -p "$kept/bin"
say "Building a node image of Kubernetes $kube: no image registry answers. This happens once; expect 12 to 25 minutes."

go_module() { # NAME OUTPUT LDFLAGS PACKAGE...: builds packages of a module that ours (go/NAME) requires
  local module=$kept/go/$1 output=$2 flags=$3
  mkdir -p "$module"
  cp "$here/go/$1/go.mod" "$here/go/$1/tools.go" "$module/"
  cd "$module"
  go mod tidy -e
  go build -v -o "$output" -ldflags "-s -w $flags" "${@:4}"
}
v=k8s.io/component-base/version
for part in kubelet kubeadm kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl; do
  [ -x "$kept/bin/$part" ] || step "Compiling $part $kube" go_module kubernetes "$kept/bin/" \
    "-X $v.gitVersion=$kube -X $v.gitMajor=1 -X $v.gitMinor=34 -X $v.gitTreeState=clean -X $v.buildDate=2026-01-01T00:00:00Z \
     -X $v.gitCommit=0000000000000000000000000000000000000000" k8s.io/kubernetes/cmd/$part
done
[ -x "$kept/bin/etcd" ] || step "Compiling etcd $etcd" go_module etcd "$kept/bin/etcd" "" go.etcd.io/etcd/server/v3
[ -x "$kept/bin/crictl" ] || step "Compiling crictl $crictl" go install -v -ldflags "-s -w" sigs.k8s.io/cri-tools/cmd/crictl@$crictl
[ -x "$kept/bin/coredns" ] || step "Compiling CoreDNS $coredns" go install -v -ldflags "-s -w" github.com/coredns/coredns@$coredns
[ -x "$kept/bin/pause" ] || gcc -static -Os -o "$kept/bin/pause" "$here/pause.c"

debian() {
  local tree
  tree=$(mktemp -d)
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,containerd,runc,containernetworking-plugins,iptables,nftables,conntrack,iproute2,ethtool,kmod,mount,util-linux,libseccomp2,e2fsprogs,ca-certificates,curl,jq,procps,socat,hostname,python3 \
    bookworm "$tree"
  rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
  tar -C "$tree" -c . | docker import - $base
  rm -rf "$tree"
}
docker image inspect $base > /dev/null 2>&1 || step "Making a Debian root file system" debian

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
control_plane() { # IMAGE BINARY PATH [BASE]
  mkdir -p "$context/$2"
  cp "$kept/bin/$2" "$context/$2/"
  printf 'FROM %s\nCOPY %s %s\nENTRYPOINT ["%s"]\n' "${4:-scratch}" "$2" "$3" "$3" > "$context/$2/Dockerfile"
  docker build -q -t "$1" "$context/$2"
  images+=("$1")
}
bake() {
  images=()
  for part in kube-apiserver kube-controller-manager kube-scheduler; do
    control_plane registry.k8s.io/$part:$kube $part /usr/local/bin/$part
  done
  control_plane registry.k8s.io/kube-proxy:$kube kube-proxy /usr/local/bin/kube-proxy $base   # needs iptables
  control_plane registry.k8s.io/etcd:$etcd_tag etcd /usr/local/bin/etcd
  control_plane registry.k8s.io/coredns/coredns:$coredns coredns /coredns
  control_plane registry.k8s.io/pause:$pause_tag pause /pause

  mkdir -p "$context/node/bin"
  cp "$kept"/bin/{kubelet,kubeadm,kubectl,crictl} "$context/node/bin/"
  cp "$here"/{10-bridge.conflist,default-cni.yaml,default-storage.yaml,runc-bounded,Dockerfile} "$context/node/"
  cp -r "$(go mod download -json sigs.k8s.io/kind@$kind | jq -r .Dir)/images/base/files" "$context/node/files"
  chmod -R u+w "$context/node/files"
  docker build -q --build-arg BASE=$base --build-arg VERSION=$kube --build-arg PAUSE=$pause_tag -t inferops/node-base "$context/node"

  # The control plane's images go into the node's own containerd store.
  docker save "${images[@]}" -o "$context/images.tar"
  local node=inferops-node-build
  docker rm -f $node || true
  docker run -d --name $node --privileged --entrypoint sleep --tmpfs /run -v "$context/images.tar:/images.tar:ro" inferops/node-base infinity
  docker exec --privileged $node bash -c '
    containerd > /tmp/containerd.log 2>&1 &
    until ctr version > /dev/null 2>&1; do sleep 0.5; done
    ctr -n k8s.io images import /images.tar > /dev/null
    kill $!; wait $! || true; rm -f /tmp/containerd.log'
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' $node "$image"
  docker rm -f $node
}
cd "$kept"
step "Assembling the node image" bake
save() { docker save "$image" $base -o "$archive.new" && mv "$archive.new" "$archive"; }
step "Keeping the node image in the cache" save
echo "$image"
