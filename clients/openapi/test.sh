#!/usr/bin/env bash
# schemathesis asks the service at $ASSAY_URL whether it is what its OpenAPI
# document says. Needs Python 3.10 or newer; EXAMPLES (20) is how many requests
# are made up for each operation, SEED which ones.
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/schemathesis ] || {
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.0
}
.venv/bin/schemathesis --config-file schemathesis.toml run "$ASSAY_URL/openapi.json" \
	--phases examples,coverage,fuzzing -n "${EXAMPLES:-20}" --seed "${SEED:-1}" --no-color
