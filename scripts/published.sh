#!/usr/bin/env bash
# Checks the package of clients/js as it is published: what npm pack makes, in a project of its own, by publint and attw, by the compiler in strict mode, and with
# Vite, webpack and esbuild.
set -euo pipefail
cd "$(dirname "$0")/../clients/js"
. ../../scripts/lib.sh

# npm writes the inner ones when it is done.
[ node_modules/.package-lock.json -nt package-lock.json ] || retry npm ci --silent --no-audit --no-fund
[ published/node_modules/.package-lock.json -nt published/package-lock.json ] || (cd published && retry npm ci --silent --no-audit --no-fund)
npm run --silent build
npm run --silent published
