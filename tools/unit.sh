#!/usr/bin/env bash
# Unit tests, with branch coverage of module_utils. What runs playbooks and programs, whose processes aren't measured, takes half of the
# time: it has the second core.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root" || exit 1
PATH=$root/.venv/bin:$bin:$PATH
export PYTHONPATH=collections
programs=(tests/unit/plugins/test_action_base.py tests/unit/plugins/test_untemplated.py tests/unit/roles/test_download.py tests/unit/lab)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
python -m pytest -q "${programs[@]}" > "$log" 2>&1 < /dev/null &
rc=0
python -m pytest -q --cov --cov-report=term "${programs[@]/#/--ignore=}" tests/unit || rc=$?
if wait $!; then tail -n 1 "$log"; else cat "$log"; rc=1; fi
exit $rc
