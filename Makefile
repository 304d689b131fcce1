# Each target does all of its set-up. `make` alone lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup demo test check core conformance bench sim soak

help: ## lists the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## installs what is missing to build and test
	@scripts/setup test

demo: ## the main join on the embedded log, with its results
	@scripts/setup demo
	@scripts/demo

test: ## every check and test, those with a real broker too
	@scripts/setup test
	@scripts/test

check: ## formatting, clippy, documentation
	@scripts/setup test
	@scripts/check

core: ## the five-second loop: the tests of core
	@scripts/setup demo
	@. scripts/env && cargo test --release -p dovetail-core

conformance: ## the conformance cases, on the built plugins; CASES=FILE for one of any place
	@scripts/setup demo
	@. scripts/env && cargo build --release --workspace --bin conformance --bin dovetail && \
		for plugin in plugins/*/Cargo.toml; do \
			"$$CARGO_TARGET_DIR/release/dovetail" build "$${plugin%/Cargo.toml}" || exit 1; \
		done && \
		"$$CARGO_TARGET_DIR/release/conformance" --components plugins $(CASES)

bench: ## the benchmark workload on a real broker, and the small benchmarks; ROWS=latency for some
	@scripts/setup test
	@scripts/bench

sim: ## fresh seeds of the simulator: SECONDS=60, or SEEDS=N; SEED=N or CASE=FILE with TRACE=1
	@scripts/setup demo
	@. scripts/env && cargo build --release --workspace --bin sim && \
		"$$CARGO_TARGET_DIR/release/sim" $(if $(SEED),--seed $(SEED)) \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(CASE),--case $(CASE)) $(if $(BUG),--bug $(BUG)) $(if $(TRACE),--trace)

soak: ## kills at full size on a real broker: RECORDS=5000000 KILLS=100, about half an hour
	@scripts/setup test
	@scripts/soak
