# Every target that needs libtorch runs the set-up first; on a prepared machine
# that takes well under a second. `make` without a target lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
PREFIX   ?= /usr/local
DATA     ?= $(or $(ASSAY_DATA),../shared/data)

# The recipe of the model that ships.
WORK   := models/work
# The commit of the model whose weights the recipe takes the mean with.
PREDECESSOR := b9bc8c01
RECIPE := --max-length 128 --embeddings touched --fold 0.03 --no-calibrate
IN_TURNS := $(RECIPE) --whole-characters 330 --context --context-tokens 64 --context-dropout 0.2 --pseudo-labels false --lambda-bag 10 --lambda-comparison 10 --batch 64 --lr-min 2e-6 --warmup 0.02
# Validation responses that resemble an assistant's, on which its threshold is fitted.
ASSISTANT := $(foreach set,harmless documents responses gptfuzz jailbreakbench,$(WORK)/validation-$(set).jsonl)

# Packages tested without the race detector: those that link libtorch, or whose tests
# do, also at second hand. A build with it compiles the bindings of libtorch a second
# time, which only `make test-all` does. The segmenter starts no goroutine, and its search
# for costly texts takes four times as long with it; packages that call the segmenter
# concurrently compile it with the detector.
unraced = go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... \
	| awk '$$2 !~ /^\[/ && ($$1 ~ /\/segmenter$$/ || / github\.com\/sugarme\/gotch( |$$)/) { sub(/\.test$$/, "", $$1); print $$1 }' | sort -u

# The library of gotch's wrappers, which bin/assay loads when it needs libtorch, and what that loads from outside the directories
# of the system: the libraries of libtorch and CUDA, wherever LIBTORCH is.
wrappers  = $$(awk '$$2 == "github.com/sugarme/gotch" { print $$NF }' go.work)/lib/libgotch.so
libraries = ls $(wrappers) && ldd $(wrappers) | awk '$$3 ~ /^\// && $$3 !~ /^\/(usr\/)?lib(32|64)?\// { print $$3 }'

.PHONY: help setup build run install test test-clients test-console test-all test-k8s test-docs lab reference bench chaos hostile fuzz sanitize audit lint model model-report image image-test clean check-go

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{ printf "  make %-13s %s\n", $$1, $$2 }' Makefile

check-go:
	@command -v go >/dev/null || { echo "assay needs Go 1.26 or newer on the PATH: https://go.dev/dl/"; exit 1; }
	@go version | awk '{ split(substr($$3, 3), v, "."); exit !(v[1] > 1 || v[2] >= 21) }' \
		|| { echo "this is $$(go version); assay needs Go 1.26 or newer: https://go.dev/dl/ (1.21 or newer fetches it by itself)"; exit 1; }

setup: check-go ## install and prepare all that a build needs (DEVICE=cuda: with CUDA; LIBTORCH=DIR: use that libtorch)
	@GOWORK=off go run ./rewardmodel/encoder/setup $(if $(DEVICE),-device $(DEVICE))

# The binary also searches the libraries where install copies them, so that root installs it without a build.
build: setup ## compile bin/assay
	go build -buildvcs=auto -ldflags '-r $$ORIGIN/../lib/assay' -o bin/assay ./sidecar

bin/assay:
	$(MAKE) build

lab: build ## compile bin/assay-lab, which measures bin/assay and reproduces the paper's experiments
	go build -buildvcs=auto -o bin/assay-lab ./lab

run: build ## build, then serve on this machine
	bin/assay serve

test: setup ## vet and test all packages, but for long tests; most under the race detector
	go vet ./...
	unraced=$$($(unraced)); \
	go test -short -race $$(go list ./... | grep -vxF "$$unraced"); \
	go test -short $$unraced
	cd clients/go && GOWORK=off go vet ./... && GOWORK=off go test -race ./...

test-clients: build ## test the clients, ours and others from PyPI, on running services (TRAINERS=1: TRL, verl, OpenRLHF too)
	clients/test.sh

test-console: setup ## test the console in Chromium (UPDATE=1: write the screenshots of docs/console)
	@command -v chromium chromium-browser google-chrome >/dev/null || { echo "needs Chromium (Debian: apt-get install chromium)"; exit 1; }
	go test -count=1 -timeout 30m ./sidecar/consoletest $(if $(UPDATE),-update)

# The race detector sees the Go code around libtorch, not libtorch. With it, the packages
# whose long tests train or start fleets run their short ones only; those of lab, none.
test-all: setup ## test with the long tests, shuffled, with no cached result
	go vet ./...
	unraced=$$($(unraced) | grep -vE '/sidecar/(admin|childproc|commands|daemon|doctor|localmodel|program)$$'); \
	go test -count=1 -shuffle=on -race -timeout 30m $$(go list ./... | grep -vxF "$$unraced"); \
	go test -count=1 -shuffle=on -timeout 30m $$unraced
	go test -count=1 -shuffle=on -short -race -timeout 30m ./rewardmodel/encoder ./sidecar/fleet ./sidecar/serve
	cd clients/go && GOWORK=off go test -count=1 -shuffle=on -race ./...

test-k8s: check-go ## render and check what stands in k8s/, and apply it to a kube-apiserver (built once, in minutes)
	cd k8s/test && export GOWORK=off && go vet ./... && \
	KUBE_APISERVER=$${KUBE_APISERVER-$$(./kube-apiserver.sh)} go test ./...

test-docs: lab ## run the commands of the documents that this machine can run (SLOW=1: those that take minutes too)
	docs/check.py --run $(if $(SLOW),--slow)

reference: setup ## write the pages of docs/reference that are generated from the code
	go test ./sidecar/program ./lab -run '^TestReference' -update

bench: setup ## run the Go benchmarks (bin/assay-lab bench measures the service)
	go test -run '^$$' -bench . -benchmem ./...

chaos: setup ## kill, starve, cut and damage running services for DURATION (10m), and check their promises (SEED= PROFILE= again; as root: power cuts)
	go test -count=1 -timeout 0 ./lab/chaos -run '^TestChaos$$' -v -duration $(or $(DURATION),10m) $(if $(SEED),-seed $(SEED)) $(if $(PROFILE),-profile $(PROFILE))

hostile: lab ## attack the memory of a service in a cgroup of the chart's size, for 5 minutes (root)
	bin/assay-lab bench hostile

fuzz: setup ## run all fuzz targets in turn for DURATION (10m) in all, or those that match FUZZ (a regular expression)
	.ci/fuzz '$(or $(DURATION),10m)' '$(FUZZ)'

sanitize: ## check the C kernels under AddressSanitizer, UBSan and ThreadSanitizer (SECONDS_EACH=20)
	.ci/sanitize

audit: build ## check vulnerabilities (OFFLINE=1: not; VULNDB=URL), insecure code, licenses and the reproducible binary (REBUILD=1: from scratch), write bin/assay.cdx.json
	.ci/audit

lint: setup ## check the formatting, go vet, golangci-lint, the GitHub workflows, and links and code of the documents
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w: $$unformatted"; exit 1; }
	go vet ./...
	go run $(GOLANGCI) run ./...
	go run $(ACTIONLINT)
	docs/check.py

install: bin/assay ## install bin/assay under PREFIX (/usr/local), the libraries that it loads, the shipped model
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/assay $(DESTDIR)$(PREFIX)/share/assay/models/default
	install bin/assay $(DESTDIR)$(PREFIX)/bin/assay
	libraries=$$($(libraries)) && install -t $(DESTDIR)$(PREFIX)/lib/assay $$libraries
	install -m 644 models/default/* $(DESTDIR)$(PREFIX)/share/assay/models/default

model: build ## rebuild models/default from DATA (default: ASSAY_DATA, else ../shared/data)
	for step in base sets bags; do go run ./models/build --data '$(DATA)' --work $(WORK) $$step; done
	bin/assay train $(RECIPE) --bags $(WORK)/train-pairs.jsonl --init $(WORK)/base --out $(WORK)/stage1 --epochs 3 --method mil-max --pseudo-labels false --batch 48 --lr 1.5e-4 --lr-min 1e-6 --warmup 0.02 --seed 2
	bin/assay train $(RECIPE) --bags $(WORK)/train.jsonl --init $(WORK)/stage1 --out $(WORK)/stage2 --epochs 1 --lambda-bag 10 --pseudo-labels false --batch 64 --lr 1e-4 --lr-min 1.5e-5 --warmup 0.02 --seed 11
	bin/assay train $(RECIPE) --bags $(WORK)/train-last.jsonl --init $(WORK)/stage2 --out $(WORK)/stage3 --epochs 1 --lambda-bag 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --seed 12
	git archive $(PREDECESSOR) models/default | tar -x -C $(WORK)
	go run ./models/build average $(WORK)/stage3 $(WORK)/models/default $(WORK)/averaged
	bin/assay train $(RECIPE) --bags $(WORK)/train-last.jsonl --init $(WORK)/averaged --out $(WORK)/stage4 --epochs 1 --lambda-bag 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --seed 13
	go run ./models/build average $(WORK)/stage4 $(WORK)/averaged $(WORK)/averaged2
	bin/assay train $(RECIPE) --bags $(WORK)/train-last.jsonl,$(WORK)/train-rules.jsonl,$(WORK)/train-twins.jsonl --init $(WORK)/averaged2 --out $(WORK)/stage5 --epochs 1 --lambda-bag 10 --lambda-comparison 5 --batch 64 --lr 6e-5 --lr-min 2e-6 --warmup 0.02 --seed 21
	go run ./models/build average $(WORK)/stage5 $(WORK)/averaged2 $(WORK)/averaged3
	bin/assay train $(RECIPE) --bags $(WORK)/train-third.jsonl,$(WORK)/train-rules.jsonl --init $(WORK)/averaged3 --out $(WORK)/stage6 --epochs 1 --lambda-bag 10 --lambda-comparison 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --warmup 0.02 --seed 22
	go run ./models/build average $(WORK)/stage6 $(WORK)/averaged3 $(WORK)/averaged4
	bin/assay train $(RECIPE) --bags $(WORK)/train-rest.jsonl,$(WORK)/train-rules.jsonl --init $(WORK)/averaged4 --out $(WORK)/stage7 --epochs 1 --lambda-bag 10 --lambda-comparison 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --warmup 0.02 --seed 23
	go run ./models/build average $(WORK)/stage7 $(WORK)/averaged4 $(WORK)/averaged5
	bin/assay train $(RECIPE) --whole-characters 330 --bags $(WORK)/train-third.jsonl,$(WORK)/train-rules.jsonl --init $(WORK)/averaged5 --out $(WORK)/stage8 --epochs 1 --lambda-bag 10 --lambda-comparison 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --warmup 0.02 --seed 24
	go run ./models/build average $(WORK)/stage8 $(WORK)/averaged5 $(WORK)/averaged6
	bin/assay train $(RECIPE) --bags $(WORK)/train-third.jsonl,$(WORK)/train-rules.jsonl,$(WORK)/train-twins.jsonl --init $(WORK)/averaged6 --out $(WORK)/stage9 --epochs 1 --lambda-bag 10 --lambda-comparison 10 --batch 64 --lr 5e-5 --lr-min 2e-6 --warmup 0.02 --seed 25
	go run ./models/build average $(WORK)/stage9 $(WORK)/averaged6 $(WORK)/averaged7
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-turns.jsonl,$(WORK)/train-turns-rules.jsonl,$(WORK)/train-turns-twins.jsonl --init $(WORK)/averaged7 --out $(WORK)/stage10 --epochs 3 --lr 1e-4 --seed 31
	go run ./models/build average $(WORK)/stage10 $(WORK)/averaged7 $(WORK)/averaged8
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-turns-rest.jsonl,$(WORK)/train-turns-rules.jsonl,$(WORK)/train-turns-other-twins.jsonl --init $(WORK)/averaged8 --out $(WORK)/stage11 --epochs 1 --lr 6e-5 --seed 38
	go run ./models/build average $(WORK)/stage11 $(WORK)/averaged8 $(WORK)/averaged9
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-turns.jsonl,$(WORK)/train-turns-rules.jsonl,$(WORK)/train-turns-twins.jsonl --init $(WORK)/averaged9 --out $(WORK)/stage12 --epochs 1 --lr 5e-5 --seed 42
	go run ./models/build average $(WORK)/stage12 $(WORK)/averaged9 $(WORK)/averaged10
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-turns-rest.jsonl,$(WORK)/train-turns-rules.jsonl,$(WORK)/train-turns-other-twins.jsonl --init $(WORK)/averaged10 --out $(WORK)/stage13 --epochs 1 --lr 4e-5 --seed 43
	go run ./models/build average $(WORK)/stage13 $(WORK)/averaged10 $(WORK)/averaged11
	go run ./models/build --share 0.125 average $(WORK)/averaged11 $(WORK)/averaged7 $(WORK)/averaged12
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-turns-last.jsonl,$(WORK)/train-turns-third-rules.jsonl --init $(WORK)/averaged12 --out $(WORK)/stage14 --epochs 1 --lr 4e-5 --seed 44
	go run ./models/build --share 0.25 average $(WORK)/averaged12 $(WORK)/stage14 $(WORK)/averaged13
	bin/assay train $(IN_TURNS) --bags $(WORK)/train-conversations.jsonl,$(WORK)/train-conversation-twins.jsonl,$(WORK)/train-turns-third-rules.jsonl --init $(WORK)/averaged13 --out $(WORK)/stage15 --epochs 1 --lr 4e-5 --seed 45
	go run ./models/build average $(WORK)/averaged13 $(WORK)/stage15 $(WORK)/final
	bin/assay train --epochs 0 --no-calibrate --init $(WORK)/final --out $(WORK)/trained \
		--bags "$$(echo $(ASSISTANT) | tr ' ' ,)" --threshold false-alarms --dtype bf16 --model-name default
	for set in $$(ls $(WORK)/test-*.jsonl | grep -v harmless); do \
		bin/assay eval --bags $$set --model $(WORK)/trained > $${set%.jsonl}-metrics.json || exit; \
	done
	go run ./models/build --work $(WORK) ship

model-report: lab ## write a report on MODEL (models/default) and bag files SETS (the test sets of DATA) to REPORT (TRAIN= HARMLESS= EXAMPLES=)
	$(if $(SETS),,go run ./models/build --data '$(DATA)' --work $(WORK) sets)
	bin/assay-lab report --model '$(or $(MODEL),models/default)' --out '$(or $(REPORT),$(WORK)/report)' \
		$(addprefix --train ,$(TRAIN)) $(addprefix --harmless ,$(HARMLESS)) $(addprefix --examples ,$(EXAMPLES)) $(or $(SETS),$(WORK)/test-*.jsonl)

image: ## build the container image (IMAGE=assay DEVICE=cpu|cuda TRAIN=yes|no REQUIRE_DIGESTS=yes, with docker, podman or buildah)
	.ci/image

image-test: ## build the image over Debian's packages and run it read-only as uid 65532 (as root, with buildah; TRAIN=no: without libtorch)
	.ci/image-test

clean: ## remove what a build made here (what the set-up prepared stays in the user's cache)
	rm -rf bin models/work go.work go.work.sum
