# bayplan: everything a contributor runs. `make help` lists it; only python3 (>= 3.11) and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.current
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 5
PYTEST := $(BIN)/python -m pytest --quiet
PARALLEL := --numprocesses auto
LOCK_VENV := .venv-lock
RELEASE_VENV := .venv-release
DOCS_VENV := .venv-docs
LOCK := $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_FLAGS)

# The engine's matrices are small: BLAS threads only get in each other's way.
export OPENBLAS_NUM_THREADS := 1
# Tests start hundreds of programs: where byte code is not kept, each compiles all modules again, for a second of CPU.
export PYTHONDONTWRITEBYTECODE :=

banner = @printf '\n== %s\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint contracts types unit web-tests web-pictures axe conformance properties kubernetes \
	controller-tests controllers e2e peers record control-plane object-fields reference docs figures proof coverage release image bench fuzz format lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything in it; does nothing when it is current

# The lock is complete, so nothing is resolved: older versions of pip fail on extras once a newer release appears.
# The version in __init__.py is part of the installed metadata. Uncompiled: Python compiles what is used, when it is.
$(STAMP): requirements/dev.txt pyproject.toml src/bayplan/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "bayplan needs Python 3.11 or newer, and '$(PYTHON)' is not. Try: make setup PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile --no-deps --require-hashes --requirement requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## see bayplan at work, without a cluster
	@mkdir -p build
	@$(BIN)/bayplan demo --report build/simulation.html --picture build/numa-telco-1.svg

test: setup lint types docs unit web-tests conformance properties kubernetes controller-tests ## check everything: lint, types, contracts, all tests

lint: setup ## style, format, prose, sizes and names of classes, import contracts
	$(call banner,lint)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/python tests/prose_check.py
	@$(BIN)/python tests/shape_check.py
	@$(MAKE) --no-print-directory contracts

contracts: setup ## which room may import which
	$(call banner,contracts)
	@$(BIN)/lint-imports --no-logo

types: setup ## mypy --strict
	$(call banner,types)
	@$(BIN)/mypy $(wildcard src tests benchmarks examples/extension/src)

unit: setup ## one behaviour at a time; tests/unit mirrors src/bayplan
	$(call banner,unit tests)
	@$(PYTEST) $(PARALLEL) tests/unit

# Without chromium or google-chrome, the tests of the page are skipped; those of its API always run.
web-tests: setup ## bayplan web as a process, and its screens in a real Chromium
	$(call banner,web tests)
	@$(PYTEST) tests/web

axe: setup ## axe-core from the npm registry, into the user's cache, for the accessibility tests of the page
	@$(BIN)/python -m tests.web.axe

web-pictures: setup ## write the pictures of docs/web.md, with chromium
	@$(BIN)/python -m tests.web.pictures

conformance: setup ## recorded behaviour of other systems
	$(call banner,conformance tests)
	@$(PYTEST) $(PARALLEL) tests/conformance

properties: setup ## laws that hold for any input
	$(call banner,property tests)
	@$(PYTEST) $(PARALLEL) tests/properties

# Two workers on any machine: each has a control plane of its own. Where none can be had the tests are skipped.
kubernetes control-plane: export BAYPLAN_KUBERNETES_VERSION = $(VERSION)
kubernetes: setup ## tests against a real API server; VERSION=1.37.1 or 1.34.4 for another one than usual
	$(call banner,kubernetes tests)
	@$(BIN)/python -m tests.kubernetes.control_plane --optional
	@$(PYTEST) --numprocesses 2 tests/kubernetes --ignore tests/kubernetes/controllers

# One process: its tests share a cluster. Tests of controllers that are not built are skipped, with one line for each.
controller-tests: setup ## tests with the real controllers that `make controllers` has built
	$(call banner,controller tests)
	@$(PYTEST) tests/kubernetes/controllers

# CONTROLLERS="jobset lws" builds only these; all of them take about 40 minutes.
controllers: control-plane ## kube-controller-manager, kubectl and operators for those tests, built once into the user's cache
	@$(BIN)/python -m tests.kubernetes.controllers $(CONTROLLERS)

e2e: setup ## Kubernetes' own scheduling specs with bayplan as default-scheduler; builds them once into the user's cache
	@$(BIN)/python -m tests.kubernetes.e2e

control-plane: setup ## etcd, kube-apiserver and kube-scheduler for those tests, built once into the user's cache
	@$(BIN)/python -m tests.kubernetes.control_plane

peers: setup ## other systems' own code to compare with, built once into the user's cache; `python -m tests.peers PEER` asks it
	@$(BIN)/python -m tests.peers build

record: peers ## write what the peers answer to generated cases into tests/conformance/recordings, for machines without Go
	@$(BIN)/python -m tests.peers record

object-fields: export BAYPLAN_KUBERNETES_VERSION = 1.37.1
object-fields: setup ## write the table of fields that strict reading checks pods and workloads against, from the newest API server
	@$(BIN)/python -m tests.kubernetes.control_plane
	@$(BIN)/python -m tests.kubernetes.object_fields

reference: setup ## write the pages of docs/ that come from the code: metrics, labels, events, commands
	@$(BIN)/python -m tests.reference

docs: ## build the documentation site, strictly, into build/site
	@test -x $(DOCS_VENV)/bin/mkdocs || { $(PYTHON) -m venv $(DOCS_VENV) && \
		$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/docs.txt; }
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

figures: setup ## write what the commands print into the README and its pictures
	@$(BIN)/python -m benchmarks.figures

proof: setup ## the long form of the laws: 200,000 placements, 20,000 gangs against exhaustive search, 2,000 against other systems, 100,000 preemptions (two hours)
	@$(PYTEST) $(PARALLEL) tests/properties/test_no_pod_is_lost.py --placements 200000
	@$(PYTEST) $(PARALLEL) tests/properties/test_gangs.py tests/properties/test_never_worse.py --random-gangs 20000 --gangs 2000
	@$(PYTEST) $(PARALLEL) tests/properties/test_preempting.py --preemptions 100000

coverage: setup ## how much of src/ the unit tests run
	@$(PYTEST) $(PARALLEL) tests/unit --cov=bayplan --cov-report=term:skip-covered | grep -v "100%"

# RELEASE=0.2.0 writes this version and its section of the changelog first. RELEASE_URL is where the archives of the kubectl plugin will be.
release: setup ## everything that is published: wheel, sdist, chart, kubectl plugin, bill of materials, notes, checksums
	@$(if $(RELEASE),$(BIN)/python -m tests.release.version $(RELEASE) $$(date -u +%Y-%m-%d))
	@$(PYTHON) -m venv --clear $(RELEASE_VENV)
	@$(RELEASE_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/release.txt
	@rm -rf dist && $(BIN)/python -m hatchling build
	@$(RELEASE_VENV)/bin/twine check --strict dist/*
	@$(BIN)/python -m tests.release dist $(RELEASE_URL)

# ENGINE, IMAGE and PLATFORM may be given: make image IMAGE=registry.example.com/bayplan:0.1.0 PLATFORM=linux/arm64
ENGINE ?= $(firstword $(foreach engine,podman buildah docker,$(if $(shell command -v $(engine)),$(engine))))
PACKAGE_VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/bayplan/__init__.py)
IMAGE ?= bayplan:$(PACKAGE_VERSION)

image: ## build the container image with podman, buildah or docker
	@test -n "$(ENGINE)" || { echo "make image needs podman, buildah or docker" >&2; exit 1; }
	$(ENGINE) build --file deploy/image/Containerfile --tag $(IMAGE) $(if $(PLATFORM),--platform $(PLATFORM)) \
		--build-arg VERSION=$(PACKAGE_VERSION) --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) .

# FUZZ="--seed 7 --only world" draws the same again. A short run is among the property tests.
fuzz: setup ## spoil examples and push them through everything: no traceback, no step over its budget, books that add up
	@$(BIN)/python -m tests.fuzz $(FUZZ)

bench: setup ## measure; run it before and after an optimisation
	@$(BIN)/python -m benchmarks

format: setup ## rewrite the source in the project's style
	@$(BIN)/ruff check --fix --exit-zero --quiet
	@$(BIN)/ruff format

lock: ## pin requirements/*.txt again (LOCK_FLAGS=--upgrade for newer versions)
	@test -x $(LOCK_VENV)/bin/uv || { $(PYTHON) -m venv $(LOCK_VENV) && \
		$(LOCK_VENV)/bin/python -m pip --disable-pip-version-check --quiet install uv; }
	@$(LOCK) pyproject.toml --output-file requirements/runtime.txt
	@$(LOCK) pyproject.toml --extra dev --constraints requirements/runtime.txt --output-file requirements/dev.txt
	@$(LOCK) pyproject.toml --extra agent --extra exact --constraints requirements/dev.txt --output-file requirements/image.txt
	@$(LOCK) pyproject.toml --extra docs --constraints requirements/dev.txt --output-file requirements/docs.txt
	@$(LOCK) pyproject.toml --extra release --constraints requirements/runtime.txt --output-file requirements/release.txt

clean: ## remove everything that was made here
	@rm -rf $(VENV) $(LOCK_VENV) $(RELEASE_VENV) $(DOCS_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
