#!/usr/bin/env bash
# Starts a service, runs a command with its URL in $ASSAY_URL, and stops it:
#   clients/with-service.sh COMMAND [FLAG...]
# FLAG... are further flags of assay serve.
# ASSAY_BIN is the binary (default bin/assay, which make build writes).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${ASSAY_BIN:-$root/bin/assay}
[ -x "$bin" ] || { echo "$bin not found: run make build, or set ASSAY_BIN" >&2; exit 1; }

work=$(mktemp -d)
log=$work/log
: >"$log" # tail may start before the service
"$bin" serve --listen 127.0.0.1:0 --nats-listen 127.0.0.1:0 --model "$root/models/default" --threads 1 \
	--data-dir "$work/data" --train-auto=false --log-format json "${@:2}" 2>>"$log" >"$work/out" &
service=$!
trap 'kill $service 2>/dev/null; wait $service 2>/dev/null || true; rm -rf "$work"' EXIT

# Wait for the log line "ready", or for the process to end.
ready=$(grep -m1 '"message":"ready"' < <(tail -n +1 -f --pid=$service "$log")) \
	|| { cat "$log" >&2; echo "the service did not start" >&2; exit 1; }
ASSAY_URL=$(sed 's/.*"http":"\([^"]*\)".*/\1/' <<<"$ready")
export ASSAY_URL
"$1"
