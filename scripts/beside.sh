#!/usr/bin/env bash
# beside.sh "TARGETS" TARGET... makes the second ones in their order, and meanwhile the first ones on what those leave of
# the processors: most of the time of tests is waiting.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
printed=$(mktemp)
nice -n 10 make $1 >"$printed" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true; rm -f "$printed"' EXIT
for target in "${@:2}"; do
  make "$target" || { step "Meanwhile, unfinished: $1"; cat "$printed"; exit 1; }
done
step "Meanwhile: $1"
wait "$beside" || { cat "$printed"; exit 1; }
tail -n 5 "$printed"
