SHELL := bash
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
DIR ?= .
export PREFIX DESTDIR
export MQ_MODULE ?= $(TARGET)/release/libredis_mq.so
export PATH := $(CURDIR)/.deps/bin:$(PATH)
export QUICK

.PHONY: help setup build program install uninstall package run look test check test-matrix bench soak fuzz memcheck audit doc

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: libclang, a Redis server (Debian and Ubuntu)
	@scripts/setup.sh

build: setup ## Build the module, target/release/libredis_mq.so
	cargo build --locked --release -p redis-mq

program: setup ## Build the command line, target/release/redis-mq
	cargo build --locked --release -p redis-mq-cli

install: build program ## Install under PREFIX (/usr), with DESTDIR before all paths
	scripts/install.sh install

uninstall: ## Remove what `make install` has put there
	scripts/install.sh uninstall

package: build program ## Build Debian packages of module and tools, target/package
	scripts/package.sh

run: build ## See it work: hash the files of DIR (this folder) with workers that get killed
	cargo run --locked --release -p redis-mq-client --example hash_files -- --dir "$(DIR)" \
		--server "$$(command -v redis-server)" --module "$(MQ_MODULE)" --conf redis.conf
	@printf '\nTo look at queues: `make look` serves pages for a browser and names the command for a terminal.\n'
	@printf 'For a server of yours: redis-mq --url redis://host:6379/ web, or top (docs/tools.md).\n'

look: build ## Queues that live, pages to look at them on http://127.0.0.1:9822/, and `redis-mq top`
	cargo build --locked --release -p redis-mq-cli
	MQ_PROGRAM="$(TARGET)/release/redis-mq" scripts/look.sh

test: check build ## Everything on this system's server, the module on Valkey 9.1, smoke on the rest
	scripts/test.sh all
	scripts/test.sh contract valkey-9.1
	scripts/test.sh smoke redis-6.2 redis-8.2 valkey-8.1
	! scripts/fuzz.sh --ready || FUZZ_SECONDS=10 scripts/fuzz.sh

check: setup doc ## Formatting and lints
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	scripts/audit.sh --page
	scripts/widths.py

test-matrix: build ## Every integration test on every server, from Redis 6.2 to Valkey 9.1
	scripts/test.sh every $$(scripts/servers.sh --list)

bench: build ## Measure; QUICK=1 for a short run
	scripts/bench.sh

soak: build ## Mixed load with kills and failovers, ten minutes
	scripts/soak.sh

fuzz: setup ## Fuzz the decoder, the effects and the arguments
	scripts/fuzz.sh

memcheck: build ## The contract with the server under valgrind
	scripts/valgrind.sh

audit: ## Licences and origin of all dependencies
	scripts/audit.sh

doc: setup ## The documentation of the code, without a warning
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
