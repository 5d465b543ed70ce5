#!/usr/bin/env bash
# Tests the service at $ASSAY_URL against its OpenAPI document with schemathesis.
# Requires Python 3.10 or newer. EXAMPLES (20) is the number of requests generated
# per operation, SEED their seed.
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/schemathesis ] || {
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.0
}
.venv/bin/schemathesis --config-file schemathesis.toml run "$ASSAY_URL/openapi.json" \
	--phases examples,coverage,fuzzing -n "${EXAMPLES:-20}" --seed "${SEED:-1}" --no-color
