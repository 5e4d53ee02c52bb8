# The one entry for people and CI. `make help` says what there is.
SHELL := /bin/bash
cache := $(or $(INFEROPS_CACHE),$(HOME)/.cache/inferops-dynamo)
export PATH := $(CURDIR)/.venv/bin:$(cache)/bin:$(PATH)
# The caller's would show the tools another checkout's collection.
unexport PYTHONPATH
target ?= sglang-gb300
# Tests run against the vendor's own CRDs where they are beside the checkout, else against ours.
upstream := $(CURDIR)/../shared/upstream
vendor_crds := $(wildcard $(upstream)/wxsms__dynamo/deploy/operator/config/crd/bases \
  $(upstream)/kubernetes-sigs__dra-driver-nvidia-gpu/deployments/helm/dra-driver-nvidia-gpu/crds)
comma := ,
empty :=
space := $(empty) $(empty)

.PHONY: help setup python kustomize lab lab-absent demo lint unit coverage docs site sanity galaxy scenarios bench test test-all
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## Python environment, kubernetes.core, container engine, kind, kustomize; cached under ~/.cache/inferops-dynamo
	@tools/setup.sh

python:
	@tools/setup.sh python

kustomize:
	@tools/setup.sh kustomize

lab: setup ## a kind cluster with simulated GPUs and a stand-in Dynamo platform
	@image=$$(docker image inspect -f ok kindest/node:v1.34.4 2>/dev/null || timeout 900 docker pull -q kindest/node:v1.34.4 2>/dev/null) \
	  || tools/node-image/build.sh > /dev/null
	@ansible-playbook playbooks/lab.yml -e '{"lab_crds": [$(subst $(space),$(comma) ,$(patsubst %,"%",$(strip $(crds))))]}'

lab-absent: setup ## removes the lab's clusters
	@ansible-playbook playbooks/lab.yml -e lab_state=absent

demo: lab ## rehearses the deployment of one target on kind and ends with the model's answer: make demo [target=vllm-b200]
	@ansible-playbook playbooks/deploy.yml -i inventories/lab -e target=$(target)
	@echo "Next: . .venv/bin/activate; ansible-playbook playbooks/deploy.yml -i inventories/lab -e target=vllm-b200"

lint: python ## ruff, mypy, yamllint, ansible-lint, documentation and changelog checks
	@tools/lint.sh

unit: kustomize ## unit tests, without the runs of whole playbooks
	@tools/unit.sh -m "not playbook"

coverage: kustomize ## all unit tests, with branch coverage of module_utils
	@tools/unit.sh --cov --cov-report=term

docs: python ## writes the parts of docs/ that follow from catalog, argument_specs and requirements
	@.venv/bin/python tools/docs.py

site: python ## docs/ and the pages of plugins and roles as HTML, in docs/build/html
	@tools/site.sh

sanity: python ## ansible-test sanity and units
	@tools/sanity.sh

galaxy: python ## builds the tarball, imports it, installs it into an empty environment and runs it from there
	@tools/galaxy.sh

scenarios: ## molecule and integration tests on the lab
	@$(MAKE) --no-print-directory lab crds='$(vendor_crds)'
	@tools/scenarios.sh

bench: kustomize ## measurements, printed and not judged: binding and header checks against the tools they replace
	@python tools/bench_binding.py
	@PYTHONPATH=collections python tools/bench_checkpoint.py

test: lint coverage sanity galaxy site scenarios ## everything that must hold before a change lands

test-all: test ## and what is long: faults on the lab, every supported ansible-core
	@tools/scenarios.sh long
	@tools/sanity.sh all
