#!/usr/bin/env bash
# Everything that judges text, one line a tool. All tools run even when one finds something; the end says which did.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root" || exit 1
PATH=$root/.venv/bin:$PATH
# the checkout's ansible.cfg must not decide what the tools see
export ANSIBLE_COLLECTIONS_PATH=$root/collections ANSIBLE_HOME=$cache/ansible-home

failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
check() { # NAME COMMAND...
  local name=$1 begin=$SECONDS log=$cache/log/lint-$1.log
  shift
  if "$@" > "$log" 2>&1 < /dev/null; then
    say "$(printf '%-22s ok    %3d s' "$name" $((SECONDS - begin)))"
  else
    say "$(printf '%-22s FAILED %2d s' "$name" $((SECONDS - begin)))"
    sed 's/^/    /' "$log" >&2
    echo "$name" >> "$failed"
  fi
}

# ansible-lint takes as long as all the others, so it has the second core.
check ansible-lint ansible-lint --strict --offline -q --nocolor -f pep8 &
check ruff ruff check .
check ruff-format ruff format --check .
check mypy mypy --cache-dir "$cache/mypy" collections/ansible_collections/inferops/dynamo/{plugins,roles,tests,tools}
check yamllint yamllint --strict .
check antsibull-docs antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
check antsibull-changelog antsibull-changelog lint
check docs python tools/docs.py --check
wait

if [ -s "$failed" ]; then die "lint: $(paste -sd ' ' "$failed")"; fi
