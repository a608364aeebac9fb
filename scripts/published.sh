#!/usr/bin/env bash
# Checks the package of clients/js as it is published: what npm pack makes, in a project of its own, by publint and attw, by the compiler in strict mode, and with
# Vite, webpack and esbuild.
set -euo pipefail
cd "$(dirname "$0")/../clients/js"
. ../../scripts/lib.sh

modules .
modules published
npm run --silent build
npm run --silent published
