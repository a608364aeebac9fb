#!/usr/bin/env bash
# Builds the documentation as a web site, into .cache/site. With --serve it also serves it, on loopback. With --reference it makes the reference of the
# client for JavaScript instead, in .cache/reference.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
cd site
# npm writes the inner one when it is done.
[ node_modules/.package-lock.json -nt package-lock.json ] || retry npm ci --silent --no-audit --no-fund
if [ "${1:-}" = --reference ]; then
  (cd ../clients/js && { [ node_modules/.package-lock.json -nt package-lock.json ] || retry npm ci --silent --no-audit --no-fund; })
  exec npm run --silent reference
fi
npm run --silent build
[ "${1:-}" != --serve ] || exec npm run --silent preview -- --host 127.0.0.1
