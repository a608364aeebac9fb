#!/usr/bin/env bash
# Makes clients of the server API from its OpenAPI document, by a generator for Python and one for TypeScript, checks their types and
# uses both at a server; checks the types of clients/python. It needs .cache/rig, and E2E_GYRO is the server.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

cache="$PWD/.cache"
document="$PWD/server/internal/web/swagger/openapi.json"
out="$cache/generators"
rm -rf "$out"
mkdir -p "$out"

step "Python"
venv "$cache/venv-generators" e2e/generators/requirements.txt
bin="$cache/venv-generators/bin"
# A warning is a part of the document of which it makes nothing.
PATH="$bin:$PATH" "$bin/openapi-python-client" generate --meta none --path "$document" --output-path "$out/made" --fail-on-warning
cp e2e/generators/use.py "$out"
(cd "$out" && MYPY_CACHE_DIR="$cache/mypy" "$bin/mypy" --follow-imports=silent use.py) # the template of the generator itself has findings
"$cache/rig" env PYTHONPATH="$out" "$bin/python" "$out/use.py"
MYPY_CACHE_DIR="$cache/mypy" "$bin/mypy" --config-file clients/python/pyproject.toml clients/python/src/gyro_api

step "TypeScript"
modules e2e/generators
cd e2e/generators
node_modules/.bin/openapi-typescript "$document" -o api.ts
node_modules/.bin/tsc
"$cache/rig" node made/use.js
