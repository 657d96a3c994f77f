# Every target first makes .venv (see tools/setup.py). With nothing to do that costs a look at file times.
#   make run ARGS="--data DIR"      PYTHON=python3.13 make setup

SHELL := /bin/bash
BIN := .venv/bin
ARGS ?=
# Test files that run side by side. Most of them wait, for disks and clocks and other processes, more than they work.
JOBS ?= 2
# A folder with suites of others (tools/conformance.py says of what kind).
SUITES ?=
CARGO := $(shell command -v cargo 2>/dev/null)
NATIVE := $(wildcard native/Cargo.toml native/pyproject.toml native/build.rs) $(shell find native/src native/python -type f 2>/dev/null)
# Two stamps, so that a cargo that appears later is noticed.
READY := .venv/ready-$(if $(CARGO),with,without)-cargo
# To serve takes less than to test: a full environment will do, else the smaller one is made.
RUNNABLE := $(or $(wildcard $(READY)),.venv/runnable-$(if $(CARGO),with,without)-cargo)

.DEFAULT_GOAL := help
.PHONY: help setup run test demo check format bench bench-spark long conformance figures dist lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv: locked dependencies, headrace, native kernels where cargo is

run: $(RUNNABLE) ## Serve on this machine's loopback, data in ./headrace-data (ARGS="--data DIR ...")
	@$(BIN)/headrace serve $(ARGS)

test: $(READY) ## Run the tests (ARGS="-k name"; JOBS=1: one after the other; SUITES=DIR: the quick suites of others first)
ifneq ($(SUITES),)
	@$(BIN)/python tools/conformance.py "$(SUITES)" wire_fuzz kcat
endif
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile $(ARGS)

demo: $(READY) ## A broker, a foreign client, kill -9: nothing lost; six doors; pipelines over live traffic, where Java is
	@$(BIN)/python -m tools.demo

check: $(READY) ## Formatting, lint, types, layers; cargo fmt and clippy where cargo is
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
ifneq ($(and $(CARGO),$(wildcard native/Cargo.toml)),)
	cd native && cargo fmt --check
	cd native && PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo clippy --quiet --all-targets -- -D warnings
else
	@echo "cargo is not installed: the native crate was not checked"
endif

format: $(READY) ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
ifneq ($(and $(CARGO),$(wildcard native/Cargo.toml)),)
	cd native && cargo fmt
endif

bench: $(READY) ## Measure us beside Apache Kafka and NATS (ARGS="--quick" or "--keep"; needs java, mvn, go)
	@$(BIN)/python -m bench $(ARGS)
	@$(BIN)/python -m bench.doors $(filter --quick --keep,$(ARGS))
	@$(BIN)/python -m bench.requests

bench-spark: $(READY) ## Measure our Spark source and sink beside Spark's own connector (ARGS="--quick" or "--keep"; needs java, mvn)
	@$(BIN)/python -m bench.spark $(ARGS)

long: $(READY) ## The long fault tests (kill -9, 100 rounds, ...)
	@$(BIN)/python -m pytest -q -m long $(ARGS)

conformance: $(READY) ## Suites of others against a node of ours (SUITES=DIR, ARGS="kcat kafkajs")
	@$(BIN)/python tools/conformance.py "$(SUITES)" $(ARGS)

figures: $(READY) ## Paste benchmark (make bench ARGS=--keep), settings, help and a session into the documents
	@$(BIN)/python tools/figures.py
	@$(BIN)/python tools/settings_page.py
	@$(BIN)/python tools/metrics_page.py
	@$(BIN)/python tools/help_page.py
	@$(BIN)/python tools/terminal.py

dist: $(READY) ## Build wheels and source archives of headrace and headrace-native into dist/
	@$(BIN)/python tools/dist.py

lock: $(READY) ## Choose the newest dependencies and write requirements/ anew (ARGS="--keep": only what is missing)
	@$(BIN)/python tools/lock.py $(ARGS)

clean: ## Remove .venv and everything built
	rm -rf .venv build dist native/target .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(1): flags of tools/setup.py
define made
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Headrace needs Python 3.11 or newer with venv; $(if $(PYTHON),$(PYTHON) is none,none was found) (name one: make PYTHON=/path/to/python3 ...)"; exit 1; fi; \
	"$$found" tools/setup.py $(1)
	@touch $@
endef

$(READY): pyproject.toml requirements/dev.txt tools/setup.py $(NATIVE)
	$(call made,)

.venv/runnable-%: pyproject.toml requirements/dev.txt requirements/runtime.txt tools/setup.py $(NATIVE)
	$(call made,--run)
