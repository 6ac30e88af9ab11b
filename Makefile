# otelcol-retina. `make` prints the targets.

.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c

# What `otelcol-retina --version` says: the version of builder-config.yaml and
# the commit.
VERSION ?= $(shell sed -n 's/^  version: //p' builder-config.yaml)+$(shell git describe --always --dirty 2>/dev/null || echo unknown)

# One set of flags everywhere, so that the build cache is shared.
export GOFLAGS := -trimpath -buildvcs=false
LDFLAGS := -s -w
BUILD   := CGO_ENABLED=0 go build -ldflags "$(LDFLAGS)"

TOOLS := bin/tools
DIST  := build/otelcol-retina
GO_FILES = $$(git ls-files -co --exclude-standard '*.go')

.PHONY: help
help: ## Print the targets
	@grep -hE '^[a-z][a-zA-Z0-9_.-]*:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'

##### The binary

# ocb writes the main package; it needs the network only when its inputs changed.
$(DIST)/.generated: builder-config.yaml go.mod internal/tools/go.mod | $(TOOLS)/builder
	@mkdir -p build
	$(TOOLS)/builder --config builder-config.yaml --skip-compilation
	@touch $@

.PHONY: sources
sources: $(DIST)/.generated
	@sed -i 's/^\(\t\tVersion: *\)".*"/\1"$(VERSION)"/' $(DIST)/main.go

.PHONY: otelcol-retina
otelcol-retina: sources ## Build bin/otelcol-retina for this machine
	cd $(DIST) && $(BUILD) -o $(CURDIR)/bin/otelcol-retina .

# The Windows binaries, and the names that they have in a release.
bin/otelcol-retina-%.exe: sources
	cd $(DIST) && GOOS=windows GOARCH=$* $(BUILD) -o $(CURDIR)/$@ .

.PHONY: otelcol-retina.exe
otelcol-retina.exe: bin/otelcol-retina-amd64.exe bin/otelcol-retina-arm64.exe ## Build bin/otelcol-retina-{amd64,arm64}.exe for Windows

.PHONY: demo
demo: otelcol-retina ## See it work: this node's pods, or three that the demo makes; Ctrl-C ends it
	@command -v ip >/dev/null || test/install-packages.sh iproute2
	cd distribution/demo && $(BUILD) -o $(CURDIR)/bin/demo .
	bin/demo

##### Packages

bin/otelcol-retina-linux-%: sources
	cd $(DIST) && GOOS=linux GOARCH=$* $(BUILD) -o $(CURDIR)/$@ .

bin/packaging: $(wildcard internal/packaging/*.go) internal/packaging/go.mod
	cd internal/packaging && $(BUILD) -o $(CURDIR)/$@ .

# Times in what is packed are the commit's, so that the same binaries give the same bytes.
.PHONY: packages
packages: bin/packaging bin/otelcol-retina-linux-amd64 bin/otelcol-retina-linux-arm64 otelcol-retina.exe ## deb, rpm, archives, image, chart, SBOM and checksums in dist/
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/packaging -version $(firstword $(subst +, ,$(VERSION))) -out dist \
		linux/amd64=bin/otelcol-retina-linux-amd64 linux/arm64=bin/otelcol-retina-linux-arm64 \
		windows/amd64=bin/otelcol-retina-amd64.exe windows/arm64=bin/otelcol-retina-arm64.exe

##### Code

$(TOOLS)/%: internal/tools/go.mod
	@mkdir -p $(TOOLS)
	cd internal/tools && CGO_ENABLED=0 go build -o $(CURDIR)/$(TOOLS)/ tool
	@touch $(TOOLS)/*

.PHONY: tools
tools: $(TOOLS)/builder $(TOOLS)/mdatagen $(TOOLS)/staticcheck ## Build the pinned Go tools into bin/tools

.PHONY: generate
generate: tools ## Regenerate what metadata.yaml and .proto files describe
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...
	gofmt -l -w $(GO_FILES)

.PHONY: lint
lint: tools ## gofmt, vet and staticcheck, for Linux and Windows
	@unformatted=$$(gofmt -l $(GO_FILES)); test -z "$$unformatted" || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	CGO_ENABLED=0 $(TOOLS)/staticcheck ./...
	CGO_ENABLED=0 GOOS=windows $(TOOLS)/staticcheck ./...

.PHONY: check-generated
check-generated: generate ## Fail if generated code or a go.mod is not current
	go mod tidy
	@git diff --exit-code -- . || { echo "generated files are not current: run make generate and commit"; exit 1; }

##### Tests

# The end-to-end tests wait more than they compute: two at a time, of which none
# uses what the other does. What both need is built before.
.PHONY: test
test: ## Install what the tests need, run all of them
	$(MAKE) packages-for-tests lint test-unit audit
	$(MAKE) otelcol-retina bin/otelcol-retina-amd64.exe bin/packaging kube-apiserver
	$(MAKE) -j2 --output-sync=target test-nodes test-others

.PHONY: test-nodes
test-nodes:
	$(MAKE) -j1 test-demo test-e2e test-attach test-config test-dashboards test-docs

.PHONY: test-others
test-others:
	$(MAKE) -j1 test-windows test-packages test-k8s

.PHONY: packages-for-tests
packages-for-tests:
	test/install-packages.sh

.PHONY: test-unit
test-unit: ## Unit tests with the race detector; as root also those in live namespaces
	CGO_ENABLED=1 go test -race ./...

.PHONY: test-demo
test-demo: otelcol-retina ## `make demo`, looked at and interrupted as a user would
	cd distribution/demo && go vet ./... && CGO_ENABLED=0 go test -count=1 ./...

.PHONY: test-config
test-config: otelcol-retina ## Each ready configuration, by what arrives at its back end
	cd test/config && go vet ./... && go test -count=1 ./...

.PHONY: test-e2e
test-e2e: otelcol-retina tools ## Real containerd 1.6 and 2.2, real Prometheus, the built binary
	cd test/testkit && go vet ./... && go test -count=1 ./...
	cd test/cri && go vet ./... && go test -count=1 ./...
	cd test/e2e && go vet ./... && go test -count=1 -timeout 40m -skip TestDashboards ./...

.PHONY: test-dashboards
test-dashboards: otelcol-retina ## Every query of the dashboards and alerts in a real Prometheus
	promtool check rules distribution/alerts/*.yaml
	promtool test rules distribution/alerts/tests/*.yaml
	cd test/e2e && go test -count=1 -run TestDashboards ./...

.PHONY: test-docs
test-docs: otelcol-retina tools ## Every configuration and command of the documents
	cd test/docs && go vet ./... && go test -count=1 -v ./...

CNIPROXY := extension/workloadnetextension/cniproxy

.PHONY: test-attach
test-attach: otelcol-retina ## Pods of containerd 1.7 and 2.2, built with cniproxy, on the network of the built binary
	[ "$$(id -u)" != 0 ] || test/install-packages.sh containerd runc busybox-static iproute2
	cd $(CNIPROXY) && go vet ./... && CGO_ENABLED=1 go test -race -count=1 ./...
	cd test/attach && go vet ./... && go test -count=1 -timeout 30m ./...

WINE := $(CURDIR)/test/winhns/wine.sh

.PHONY: test-windows
test-windows: bin/otelcol-retina-amd64.exe ## Windows binaries under Wine, against a simulated HNS
	GOOS=windows GOARCH=arm64 CGO_ENABLED=0 go build ./...
	test/winhns/setup.sh
	CGO_ENABLED=1 CC=x86_64-w64-mingw32-gcc GOOS=windows go test -race -exec $(WINE) ./receiver/hnsstatsreceiver/internal/hns
	GOOS=windows CGO_ENABLED=0 go test -exec $(WINE) ./extension/podidentityextension/internal/source/statefile
	cd test/winhns/e2e && go vet ./... && go test -count=1 -timeout 40m ./...

.PHONY: kube-apiserver
kube-apiserver: ## Build a real Kubernetes API server for the tests (8 minutes when cold)
	cd test/kubeapiserver && CGO_ENABLED=0 go build -ldflags "$(LDFLAGS) -X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37" -o $(CURDIR)/build/kubeapiserver/kube-apiserver .

.PHONY: test-k8s
test-k8s: kube-apiserver otelcol-retina ## The k8s source against a real Kubernetes API server
	cd test/k8s && go vet ./... && go test -count=1 -timeout 30m -skip TestChurn ./...

.PHONY: test-packages
test-packages: packages-for-tests otelcol-retina bin/packaging kube-apiserver ## Packages under a real systemd, image, manifests and chart
	cd internal/packaging && go vet ./...
	cd test/packages && go vet ./... && go test -count=1 -timeout 20m ./...

.PHONY: test-k8s-churn
test-k8s-churn: kube-apiserver ## The same with 10,000 pods that come and go for minutes; not in `make test`
	cd test/k8s && go test -timeout 60m -v -run TestChurn ./...

.PHONY: audit
audit: ## A million points of synthetic node lives: each name against the truth
	CGO_ENABLED=0 go test -count=1 -run TestAudit -v ./extension/podidentityextension

.PHONY: fuzz
fuzz: ## Each fuzz target for 10 s (FUZZTIME=…)
	test/fuzz.sh $${FUZZTIME:-10s}

.PHONY: bench
bench: ## The benchmarks, ours beside the common way
	[ "$$(id -u)" != 0 ] || test/install-packages.sh containernetworking-plugins iproute2
	go test -run '^$$' -bench . -benchmem ./...
	cd test/peerbench && go test -run '^$$' -bench . -benchtime 100ms .

.PHONY: clean
clean: ## Remove what the targets built
	rm -rf bin build dist
