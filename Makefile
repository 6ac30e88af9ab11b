# otelcol-retina: `make` prints the targets.

.DEFAULT_GOAL := help
SHELL         := bash

VERSION ?= $(shell git describe --tags --dirty --always 2>/dev/null || echo v0.0.0-dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

# One set of flags everywhere, so that the build cache is shared.
export CGO_ENABLED ?= 0
GOFLAGS_BUILD := -trimpath
LDFLAGS       := -s -w

TOOLS := $(CURDIR)/bin/tools
MODULES := . # modules whose packages `make test-unit` runs

.PHONY: help
help: ## Print the targets
	@grep -hE '^[a-z][a-zA-Z0-9_.-]*:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-22s %s\n", $$1, $$2}'

.PHONY: tools
tools: ## Build the pinned Go tools (mdatagen, ocb, staticcheck) into bin/tools
	@mkdir -p $(TOOLS)
	cd internal/tools && go build -o $(TOOLS)/ tool

.PHONY: generate
generate: tools ## Regenerate code from every metadata.yaml and .proto
	PATH="$(TOOLS):$$PATH" go generate ./...
	gofmt -l -w $$(git ls-files '*.go')

.PHONY: test-unit
test-unit: ## Unit tests of the main module, with the race detector
	CGO_ENABLED=1 go test -race ./...

.PHONY: lint
lint: tools ## gofmt, vet and staticcheck, for Linux and Windows
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	$(TOOLS)/staticcheck ./...
