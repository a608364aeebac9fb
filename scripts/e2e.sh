#!/usr/bin/env bash
# Runs the public SDKs against the server that `make build` made.
set -euo pipefail
cd "$(dirname "$0")/.."
export GYRO_BINARY="$PWD/.bin/gyro"
echo "== Go SDK and interoperability"
go vet ./e2e/...
go test -count=1 ./e2e/...
