#!/usr/bin/env bash
# Tests the clients of this repository that are not Go: by the conversations of clients/fixtures, and against the server that make build
# made; builds the package, and holds its size to its limits. With --bench it measures the client for JavaScript beside npm centrifuge instead, in Node.js and Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/lib.sh

cd clients/js
modules .
if [ "${1:-}" = --bench ]; then
  export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
  need chromium
  exec npm run --silent bench -- "${@:2}"
fi
npm run --silent build
npm run --silent test
npm run --silent size
