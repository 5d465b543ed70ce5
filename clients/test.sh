#!/usr/bin/env bash
# Tests the clients and the OpenAPI document against a running service. Each
# clients/*/test.sh is one part, and runs with $ASSAY_URL set. Arguments select
# parts (clients/test.sh go openapi); the default is all.
set -euo pipefail

cd "$(dirname "$0")"
parts=("$@")
[ ${#parts[@]} -gt 0 ] || { parts=(*/test.sh); parts=("${parts[@]%/test.sh}"); }
for part in "${parts[@]}"; do
	echo "== $part"
	./with-service.sh "$part/test.sh"
done
