#!/usr/bin/env bash
# Runs the client of clients/js in Firefox, and in a Chromium that sleeps, against the server that make build made. Browsers and npm packages that are missing
# are installed first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

export E2E_GYRO="$PWD/.bin/gyro"
export FIREFOX="${FIREFOX:-/usr/bin/firefox-esr}"
[ -x "$E2E_GYRO" ] || { echo "no $E2E_GYRO: run make browsers, which builds it" >&2; exit 1; }
export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
need firefox-esr
need chromium
cd clients/js
modules .
npm run --silent build
cd ../../e2e/js
modules .
npm run --silent firefox
E2E_SLEEP=1 npm run --silent sleep
