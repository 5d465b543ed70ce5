#!/usr/bin/env bash
# Tests every client, and the OpenAPI document, against a running service: each
# clients/*/test.sh does a part, and gets $ASSAY_URL. Arguments name the parts
# (clients/test.sh go openapi); all by default.
set -euo pipefail

cd "$(dirname "$0")"
parts=("$@")
[ ${#parts[@]} -gt 0 ] || { parts=(*/test.sh); parts=("${parts[@]%/test.sh}"); }
for part in "${parts[@]}"; do
	echo "== $part"
	./with-service.sh "$part/test.sh"
done
