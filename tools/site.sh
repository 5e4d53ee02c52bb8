#!/usr/bin/env bash
# docs/ and the pages of plugins and roles as one site in docs/build/html. Sphinx's warnings are errors: a broken link ends it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
PATH=$root/.venv/bin:$PATH
export ANSIBLE_COLLECTIONS_PATH=$root/collections ANSIBLE_HOME=$cache/ansible-home
source=$root/docs/build/source
rm -rf "$source"
mkdir -p "$source/collection"
git ls-files -z --cached --others --exclude-standard -- '*.md' docs 'roles/*/meta/*' | xargs -0 cp --parents -t "$source"
cp docs/docsite/conf.py "$source"
cat > "$source/index.md" << 'MD'
# inferops.dynamo

```{toctree}
:maxdepth: 1

README
docs/README
docs/concepts
docs/inventory
docs/troubleshooting
docs/fleet
docs/checkpoint
docs/security
docs/air_gapped
docs/gitops
docs/from_kustomize
docs/execution_environment
docs/benchmark
docs/lab
docs/options
docs/architecture
CONTRIBUTING
CHANGELOG
collection/index
```

```{toctree}
:maxdepth: 1
:caption: Targets
:glob:

docs/targets/*
```

```{toctree}
:hidden:
:glob:

roles/*/README
```
MD
step "Describing plugins and roles" \
  antsibull-docs collection --use-current --squash-hierarchy --fail-on-error --dest-dir "$source/collection" inferops.dynamo
step "Building the site" python -m sphinx -q -W --keep-going -b html "$source" "$root/docs/build/html"
say "docs/build/html/index.html"
