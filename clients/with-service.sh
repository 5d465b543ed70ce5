#!/usr/bin/env bash
# Runs a command while a service of its own runs, whose address is $ASSAY_URL:
#   clients/with-service.sh COMMAND...
# ASSAY_BIN names the binary (default bin/assay, which make build writes).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${ASSAY_BIN:-$root/bin/assay}
[ -x "$bin" ] || { echo "$bin is not there; make build, or set ASSAY_BIN" >&2; exit 1; }

work=$(mktemp -d)
log=$work/log
: >"$log" # tail may be there before the service
"$bin" serve --listen 127.0.0.1:0 --nats-listen 127.0.0.1:0 --model "$root/models/default" --threads 1 \
	--data-dir "$work/data" --train-auto=false --log-format json 2>>"$log" >"$work/out" &
service=$!
trap 'kill $service 2>/dev/null; wait $service 2>/dev/null || true; rm -rf "$work"' EXIT

# The line that says ready, or the end of the process.
ready=$(grep -m1 '"message":"ready"' < <(tail -n +1 -f --pid=$service "$log")) \
	|| { cat "$log" >&2; echo "the service did not start" >&2; exit 1; }
ASSAY_URL=$(sed 's/.*"http":"\([^"]*\)".*/\1/' <<<"$ready")
export ASSAY_URL
"$@"
