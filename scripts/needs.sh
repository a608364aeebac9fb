#!/usr/bin/env bash
# Installs what the Go tests start beside themselves, if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need redis-server redis-server
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql
