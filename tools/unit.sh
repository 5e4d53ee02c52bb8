#!/usr/bin/env bash
# Unit tests on all cores. Arguments go to pytest.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
PATH=$root/.venv/bin:$bin:$PATH
export PYTHONPATH=collections
exec python -m pytest -q -n auto --dist loadgroup "$@" tests/unit
