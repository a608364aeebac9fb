#!/usr/bin/env bash
# Runs the public SDKs, and a real browser, against the server that `make build`
# made and one with the race detector. What is missing (npm and PyPI packages,
# Chromium) is installed first.
set -euo pipefail
cd "$(dirname "$0")/.."
gyro="$PWD/.bin/gyro"
export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
export PYTHONDONTWRITEBYTECODE=1
cache="$PWD/.cache"
venv="$cache/venv"
rig="$cache/rig"
# Not GYRO_…: the server takes that for configuration.
export E2E_GYRO="$cache/gyro-race"
mkdir -p "$cache"

step() { printf '\n== %s\n' "$*"; }

# retry runs a command that needs the network.
retry() {
  for pause in 2 5; do
    "$@" && return
    echo "failed, trying again in $pause s: $*" >&2
    sleep "$pause"
  done
  "$@"
}

# as_root is for the system's package manager.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

[ -x "$gyro" ] || { echo "no $gyro: run make e2e, which builds it" >&2; exit 1; }

step "Go: interoperability, centrifuge-go, and the suite that it ships"
go vet ./e2e/...
go build -race -o "$E2E_GYRO" ./server/cmd/gyro
go build -race -o "$rig" ./e2e/cmd/rig
# The test programs themselves without it: it finds races within centrifuge-go.
go test -count=1 -timeout=5m ./e2e/...

step "JavaScript: npm centrifuge, JSON and Protobuf builds"
(cd e2e/js && retry npm ci --silent --no-audit --no-fund)
(cd e2e/js && "$rig" npm run --silent test)

step "Python: centrifuge-python, and every API method by cent"
[ -x "$venv/bin/pip" ] || python3 -m venv --clear "$venv"
retry "$venv/bin/pip" install --quiet --disable-pip-version-check -r e2e/python/requirements.txt
"$rig" "$venv/bin/python" -W ignore::ResourceWarning -m unittest discover -s e2e/python

step "Browser: two tabs on the demo page of gyro dev"
if [ ! -x "$CHROMIUM" ]; then
  retry as_root apt-get update -qq
  retry as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
(cd e2e/js && "$rig" env E2E_GYRO="$gyro" npm run --silent browser)
