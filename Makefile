# `make` explains itself. Every target works on a clean clone: what a target needs it builds or installs first.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help run test build race lint fmt bench fuzz e2e prices passwords secrets clean

# The linters come as one program, built from source at this version.
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Starts the databases and the Kafka that tests and benchmarks run on, and ends them.
SERVERS := go run ./schema/schematest/servers --

# How the program is built, and the benchmarks: static, and without what is not used.
BUILDFLAGS := -trimpath -tags nomsgpack,timetzdata -ldflags '-s -w'

# Which tests, benchmarks or packages: make test PKG=./processor/... RUN=TestRun
PKG ?= ./...
RUN ?= .
BENCH ?= .
COUNT ?= 5
FUZZTIME ?= 20s

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start everything on this machine, ready to use
	@.ci/setup run
	@exec build/outlay up

build: ## build the one binary, build/outlay
	@CGO_ENABLED=0 go build $(BUILDFLAGS) -o build/ ./cmd/outlay

test: ## run all tests with the race detector, on a real Kafka and every edition of the database that is installed
	@.ci/setup test
	@$(SERVERS) go test -race -timeout 45m -run '$(RUN)' $(PKG)

race: ## run the tests COUNT times over, with more threads than processors, to find what happens rarely
	@.ci/setup test
	@$(SERVERS) go test -race -timeout 60m -count $(COUNT) -cpu 2,8 -run '$(RUN)' $(PKG)

e2e: ## run only the tests that start the program itself
	@.ci/setup test
	@$(SERVERS) go test -race -timeout 45m -count 1 -run '$(RUN)' ./cmd/...

lint: ## check the code as CI does
	@go mod tidy -diff
	@$(GOLANGCI) run ./...

fmt: ## format the code
	@$(GOLANGCI) fmt ./...

bench: ## measure, on a real Kafka and TimescaleDB if there is one
	@.ci/setup test
	@CGO_ENABLED=0 $(SERVERS) go test $(BUILDFLAGS) -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

fuzz: ## fuzz each decoder for FUZZTIME
	@set -e; for package in $$(go list $(PKG)); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

prices: ## fetch the published prices anew and write the catalogue that is built in
	@go run ./schema/price/generate

passwords: ## fetch the list of common passwords anew that is built in
	@go run ./schema/account/generate

secrets: ## make the passwords and keys that docker-compose.yml needs
	@sh deploy/secrets.sh

clean: ## remove what was built; data of `make run` stays
	@rm -rf build
