#!/usr/bin/env bash
# The tarball as a user gets it: built, imported as Galaxy does, installed into an empty place and run from there by FQCN.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
PATH=$root/.venv/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home"

export ANSIBLE_HOME=$work/home ANSIBLE_NOCOLOR=1
step "Building the tarball" ansible-galaxy collection build "$root" --output-path "$work"
tarball=$(echo "$work"/inferops-dynamo-*.tar.gz)

tar -tzf "$tarball" > "$work/names"
if grep -nE '^(tests|tools|molecule|collections|inventories/lab|reports|\.venv|\.ci|\.git|.*__pycache__|.*\.pyc)(/|$)' "$work/names" >&2; then
  die "the tarball holds what is for the checkout only: see build_ignore in galaxy.yml"
fi

cat > "$work/importer.cfg" << 'CFG'
[galaxy-importer]
check_required_tags = True
require_v1_or_greater = True
CFG
importer() {
  cd "$work"
  GALAXY_IMPORTER_CONFIG=$work/importer.cfg ANSIBLE_COLLECTIONS_PATH=$work/none python -m galaxy_importer.main "$tarball"
}
step "galaxy-importer on the tarball" importer
# it succeeds also when ansible-lint or the loaders complained
if grep -E '^(ERROR|WARNING)' "$cache/log/galaxy-importer-on-the-tarball.log" | grep -v 'ansible-test' >&2; then
  die "galaxy-importer has complaints, see above"
fi

cd "$work" # away from the checkout's ansible.cfg, by which the collection would be there already
step "Installing the tarball into an empty place" \
  ansible-galaxy collection install --offline --no-cache -p "$work/site" "$tarball"

cat > hosts.yml << 'YML'
all:
  hosts:
    from-tarball:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
      dynamo_kubeconfig: "{{ inventory_dir }}/kubeconfig"
      dynamo_namespace: llm
YML
# no cluster is asked, only named
cat > kubeconfig << 'YML'
{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}
YML
by_name() {
  env -i HOME="$work/home" PATH="$PATH" LC_ALL=C.UTF-8 ANSIBLE_COLLECTIONS_PATH="$work/site" \
    ansible-playbook inferops.dynamo.target -i hosts.yml -e target=sglang-gb300
}
step "Running the playbook inferops.dynamo.target from it" by_name
grep -q 'minimax-m3-1-sglang-agg-gb300' "$cache/log/Running-the-playbook-inferops.dynamo.target-from-it.log" \
  || die "the playbook ran but did not show the release minimax-m3-1-sglang-agg-gb300"
say "The tarball $(basename "$tarball") can be published."
