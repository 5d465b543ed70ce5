#!/usr/bin/env bash
# Checks that the types are up to date, and runs the example against the service
# at $ASSAY_URL. Requires Node 20 or newer.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
cp assay.d.ts before.d.ts
trap 'rm -rf before.d.ts "$out"' EXIT
out=$(mktemp -d)
npm run --silent generate
cmp assay.d.ts before.d.ts || { echo "assay.d.ts was out of date and has been regenerated" >&2; exit 1; }
npm run --silent check
npx tsc --noEmit false --outDir "$out"
echo '{"type":"module"}' >"$out/package.json"
node "$out/example.js" | tee "$out/printed"
grep -q "You are a stupid idiot." "$out/printed"
! ASSAY_URL=$ASSAY_URL/none node "$out/example.js" 2>"$out/failed" || exit 1
grep -q "Error: 404 " "$out/failed"
