#!/usr/bin/env bash
# Tests the Go client against the service at $ASSAY_URL.
set -euo pipefail
cd "$(dirname "$0")"
GOWORK=off go test -race -count=1 ./...
