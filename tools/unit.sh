#!/usr/bin/env bash
# Unit tests on all cores, with branch coverage of module_utils.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
PATH=$root/.venv/bin:$bin:$PATH
export PYTHONPATH=collections
exec python -m pytest -q -n auto --dist loadscope --cov --cov-report=term tests/unit
