# What a newcomer and CI run. A Linux machine with Rust, Python 3.10 or later (with venv) and a C compiler is enough.
# Everything that contains DataFusion is built in the release profile with the same features
# (scripts/check_one_build.py), so that it is compiled once for command, tests and Python package.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := $(CURDIR)/.venv
VENV_PYTHON := $(VENV)/bin/python
# Where cargo puts its files; target/ unless CARGO_TARGET_DIR or a cargo configuration says otherwise.
TARGET = $(shell cargo metadata --no-deps --format-version 1 | $(PYTHON) -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
# Crates that stand above `engine` never see DataFusion and build in seconds.
LOW_CRATES = $(shell $(PYTHON) scripts/check_layers.py --above engine)

.PHONY: help
help: ## List what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: command package ## Build target/release/thermocline and .venv with the Python package

.PHONY: demo
demo: command ## Build the command and run its demonstration
	target/release/thermocline demo

.PHONY: test
test: package ## Run all tests (release profile), Rust and Python
	cargo test --release --locked --workspace
	$(VENV_PYTHON) -m pytest python/tests
	$(VENV_PYTHON) -m pytest lab/recache
	$(VENV_PYTHON) -m pytest lab/hpcache
	$(VENV_PYTHON) -m pytest lab/ssb

.PHONY: test-low
test-low: ## Run the tests of the crates without DataFusion, with debug assertions and overflow checks
	cargo test --locked $(LOW_CRATES)

.PHONY: test-arm
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
test-arm: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = qemu-aarch64 -L /usr/aarch64-linux-gnu
test-arm: export CC_aarch64_unknown_linux_gnu = aarch64-linux-gnu-gcc
test-arm: ## Run the tests of unpacking and of pipelines for ARM (needs qemu-user and gcc-aarch64-linux-gnu)
	rustup target add aarch64-unknown-linux-gnu
	cargo test --locked --target aarch64-unknown-linux-gnu -p thermocline-column-store -p thermocline-pipeline --lib

.PHONY: bench
bench: ## Run the micro benches
	cargo bench --locked --workspace --benches

.PHONY: lint
lint: ## Check formatting, clippy, documentation, layering and forbidden words
	cargo fmt --all --check
	scripts/check_words.sh
	$(PYTHON) scripts/check_layers.py --self-test
	$(PYTHON) scripts/check_layers.py
	$(PYTHON) scripts/check_one_build.py --self-test
	$(PYTHON) scripts/check_one_build.py
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --lib --no-deps

.PHONY: command
command: # the binaries; the whole workspace is selected so that features are the same as for the tests
	cargo build --release --locked --workspace --bins
	if ! [ "$(TARGET)/release" -ef target/release ]; then \
		mkdir -p target/release; \
		for name in thermocline lab; do ln -sfn "$(TARGET)/release/$$name" "target/release/$$name"; done; \
	fi

.PHONY: package
package: $(VENV)/.ready # the Python package, importable in .venv
	cd python && VIRTUAL_ENV=$(VENV) $(VENV)/bin/maturin develop --release --locked

$(VENV)/.ready: python/requirements-test.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check maturin -r python/requirements-test.txt
	touch $@
