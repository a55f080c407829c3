# `make` prints this help; .ci/run is what has to be green.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
FUZZTIME ?= 10s

.PHONY: help check test race seeds golden fuzz gen baseline lint fmt demo ci tools

help: ## print this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: ## all that should hold before a commit; under a minute once warm
	@.ci/run format modules vet proto lint unit

test: ## every test of every module of go.work
	go test work

race: ## the core under the race detector
	go test -race -short ./core/...

seeds: ## the worlds of seeds 1 to SIM_SEEDS (100000); make check plays 2000
	@.ci/run seeds

golden: ## rewrite golden files and cases; review the result as a diff
	GOLDEN=rewrite go test ./core/... ./platform/codec ./services/... ./cmd/...
	git --no-pager diff --stat

fuzz: ## every fuzz target for FUZZTIME (10s) each
	@tools/fuzz $(FUZZTIME)

gen: ## write the Go code of proto/
	@tools/install buf protoc-gen-go
	.bin/buf generate

baseline: ## freeze the wire as it is now: breaking changes are judged against it
	@tools/install buf
	.bin/buf build --exclude-source-info --output proto/baseline.binpb

lint: ## golangci-lint over both modules
	@tools/install golangci-lint
	.bin/golangci-lint run ./... ./examples/embed-go/...

fmt: ## gofumpt over both modules
	@tools/install gofumpt
	.bin/gofumpt -w .

demo: ## the whole road on a real trace; no servers needed
	go run ./cmd/gpuhour demo

ci: ## what continuous integration runs
	.ci/run

tools: ## build the pinned tools into .bin/
	@tools/install
