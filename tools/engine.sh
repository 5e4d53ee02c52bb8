#!/usr/bin/env bash
# Makes sure that a container engine answers. Where none does: on a Debian system, as root, installs and starts Docker;
# elsewhere it ends with what to install.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if docker info > /dev/null 2>&1; then exit 0; fi
is_debian_root || die "no container engine answers (docker info fails). Install Docker or start it, then run this again."

say "No container engine answers: installing and starting Docker on this machine (as root, from Debian's packages)."
apt_install docker.io containerd runc containernetworking-plugins iproute2 iptables conntrack jq

# Outside the checkout: the running engine refers to it, whichever checkout started it.
runtime=/usr/local/lib/inferops-dynamo/runc-bounded
install -D -m 755 "$root/tools/node-image/runc-bounded" "$runtime"

alive() { # PIDFILE NAME: is that pid a live (not a zombie) process of this name?
  local pid
  pid=$(cat "$1" 2> /dev/null) && [ "$(cat "/proc/$pid/comm" 2> /dev/null)" = "$2" ] \
    && ! grep -q '^State:.Z' "/proc/$pid/status"
}
# A daemon that was killed with everything leaves a pid file that the next one takes for a live daemon.
alive /run/docker.pid dockerd || rm -f /run/docker.pid
# Asked by its socket, not by its name: the containerd inside a kind node looks the same from here.
if ! timeout 5 ctr version > /dev/null 2>&1; then setsid containerd > "$cache/log/containerd.log" 2>&1 < /dev/null & fi
for _ in $(seq 60); do timeout 5 ctr version > /dev/null 2>&1 && break; sleep 1; done
if ! alive /run/docker.pid dockerd; then
  setsid dockerd --add-runtime bounded=$runtime --default-runtime bounded > "$cache/log/dockerd.log" 2>&1 < /dev/null &
fi
for _ in $(seq 60); do
  docker info > /dev/null 2>&1 && { say "Docker is running."; exit 0; }
  sleep 1
done
tail -n 5 "$cache/log/dockerd.log" >&2
die "Docker did not start within 60 s; its log: $cache/log/dockerd.log"
