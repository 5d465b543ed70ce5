#!/usr/bin/env bash
# Tests the service at $ASSAY_URL against its OpenAPI document with schemathesis, and a service of its own as callers whose
# tokens have not all scopes. Requires Python 3.10 or newer. EXAMPLES is the number of requests generated per operation
# (20, and 5 with each token), SEED their seed.
set -euo pipefail
cd "$(dirname "$0")"
[ -x .venv/bin/schemathesis ] || {
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check schemathesis==4.32.0
}
if [ -n "${SCOPED_TOKENS:-}" ]; then # the service of the second part
	for token in $SCOPED_TOKENS; do
		.venv/bin/schemathesis --config-file schemathesis.toml run "$ASSAY_URL/openapi.json" \
			--phases examples,coverage,fuzzing -n "${EXAMPLES:-5}" --seed "${SEED:-1}" --no-color --header "Authorization: Bearer $token"
	done
	exit
fi
.venv/bin/schemathesis --config-file schemathesis.toml run "$ASSAY_URL/openapi.json" \
	--phases examples,coverage,fuzzing -n "${EXAMPLES:-20}" --seed "${SEED:-1}" --no-color

tokens=$(mktemp)
trap 'rm -f "$tokens"' EXIT
printf 'token-that-scores-only score\ntoken-that-labels-too score,feedback\n' >"$tokens"
SCOPED_TOKENS="token-that-scores-only token-that-labels-too" ../with-service.sh ./test.sh --token-file "$tokens"
