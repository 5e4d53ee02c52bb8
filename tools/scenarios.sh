#!/usr/bin/env bash
# Molecule and the integration tests, on the lab that `make lab` made. `scenarios.sh long` runs those that are long.
# Other arguments go to pytest, for one test: -k canary
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
export PATH=$root/.venv/bin:$bin:$PATH
[ -e "$cache/lab/kubeconfig" ] || die "there is no lab on this machine: run 'make lab' first"

if [ "${1:-}" = long ]; then
  step "Molecule scenario faults" molecule test -s faults
  step "Long integration tests" pytest tests/integration -v -m long
  exit
fi
if [ $# -gt 0 ]; then exec pytest tests/integration -v "$@"; fi
step "Molecule scenario default" molecule test -s default
step "Molecule scenario disagg" molecule test -s disagg
step "Molecule scenario checkpoint" molecule test -s checkpoint
step "Integration tests" pytest tests/integration -v -m "not long"
