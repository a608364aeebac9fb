#!/usr/bin/env bash
# Runs a cluster with up to a million connections on this machine (docs/million.md): CONNS, NODES, SHARDS, LOADS, IDLE, STEP, DRAIN, PING,
# PHASES and OUT in the environment; what is empty is as the program has it. It ends everything that it started, also after Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need redis-server redis-server
mkdir -p .cache
go build -o .cache/million-stand ./e2e/cmd/million
options=()
for name in conns nodes shards loads idle step drain ping phases out; do
  variable=${name^^}
  [ -z "${!variable:-}" ] || options+=("-$name" "${!variable}")
done
exec .cache/million-stand "${options[@]}"
