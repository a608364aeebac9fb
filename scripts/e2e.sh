#!/usr/bin/env bash
# Runs the public SDKs, and a real browser, against the server that `make build`
# made and one with the race detector; the browser also visits the documentation as a web
# site. What is missing (Python's venv, Chromium, npm and PyPI packages) is installed first; Go
# and Node.js 20.11 or newer have to be there.
set -euo pipefail
cd "$(dirname "$0")/.."
gyro="$PWD/.bin/gyro"
export CHROMIUM="${CHROMIUM:-/usr/bin/chromium}"
export PYTHONDONTWRITEBYTECODE=1
cache="$PWD/.cache"
python="$cache/venv"
rig="$cache/rig"
# Not GYRO_…: the server takes that for configuration.
export E2E_GYRO="$cache/gyro-race"
mkdir -p "$cache"

. scripts/lib.sh

[ -x "$gyro" ] || { echo "no $gyro: run make e2e, which builds it" >&2; exit 1; }

step "Go: interoperability, centrifuge-go, and the suite that it ships"
go build -race -o "$E2E_GYRO" ./server/cmd/gyro
go build -race -o "$rig" ./e2e/cmd/rig
# The test programs themselves without it: it finds races within centrifuge-go.
need redis-server redis-server
need nginx nginx-light
need haproxy haproxy
need caddy caddy
need openssl openssl
go test -count=1 -timeout=5m $(go list ./e2e/... | grep -Ev '/(docs|faults|install|million|packages|proxies|soak)$')

step "The stand of a million connections, with 20,000"
E2E_GYRO=$gyro go test -count=1 -timeout=5m ./e2e/million/...

step "Faults: three nodes, 300 subscribers, Redis and NATS that fail"
go test -count=1 -timeout=5m -v ./e2e/faults | grep -v '^=== '
step "Go: the scenarios on two nodes with Redis; who comes back is on the other node"
E2E_NODES=2 go test -count=1 -timeout=5m -run TestScenarios ./e2e/gosdk

step "JavaScript: the client of this repository"
scripts/clients.sh
step "Go and JavaScript: the clients of this repository, over networks and servers with faults"
go test -count=1 -timeout=5m -v ./e2e/soak | grep -v '^=== '

# Most of the time of an SDK's suite is waiting, so it runs on one node, and on two with Redis, NATS and PostgreSQL,
# at once.
cd e2e/js
# npm writes the inner one when it is done.
[ node_modules/.package-lock.json -nt package-lock.json ] || retry npm ci --silent --no-audit --no-fund
js_memory() {
  step "JavaScript: npm centrifuge over WebSocket, HTTP streams and SockJS, JSON and Protobuf builds"
  "$rig" npm run --silent test
}
js_redis() {
  step "JavaScript: the same on two nodes with Redis"
  E2E_NODES=2 "$rig" npm run --silent test
}
js_nats() {
  step "JavaScript: what needs no history, on two nodes with NATS"
  E2E_NODES=2 E2E_BROKER=nats "$rig" npm run --silent test
}
js_postgres() {
  step "JavaScript: the same on two nodes with PostgreSQL"
  E2E_NODES=2 E2E_BROKER=postgres "$rig" npm run --silent test
}
together js_memory js_redis js_nats js_postgres
[ -x "$CHROMIUM" ] || packages chromium
for tls in false true; do
  way=$([ $tls = true ] && echo WebTransport || echo "HTTP streams and SockJS")
  export E2E_TLS=$tls
  chromium_memory() {
    step "Chromium: npm centrifuge over $way"
    "$rig" npm run --silent chromium
  }
  chromium_redis() {
    step "Chromium: the same on two nodes with Redis"
    E2E_NODES=2 "$rig" npm run --silent chromium
  }
  chromium_nats() {
    step "Chromium: what needs no history, on two nodes with NATS"
    E2E_NODES=2 E2E_BROKER=nats "$rig" npm run --silent chromium
  }
  together chromium_memory chromium_redis chromium_nats
done
unset E2E_TLS
cd - >/dev/null

venv "$python" e2e/python/requirements.txt
python_suite() { "$rig" "$python/bin/python" -W ignore::ResourceWarning -m unittest discover -s e2e/python; }
python_memory() {
  step "Python: centrifuge-python, and every API method by cent"
  python_suite
}
python_redis() {
  step "Python: the same on two nodes with Redis"
  E2E_NODES=2 python_suite
}
browser() {
  step "Browser: gyro dev, tabs on its demo page, the examples that it shows, and clients without an SDK"
  go build -o "$cache/" ./examples/board ./examples/bot
  cd e2e/js
  "$rig" env E2E_GYRO="$gyro" E2E_PYTHON="$python/bin/python" E2E_BOARD="$cache/board" E2E_BOT="$cache/bot" npm run --silent browser
}
backends() {
  step "Go: the example backends, with centrifuge-go"
  go test -count=1 -timeout=5m ./e2e/proxies
}
installation() {
  step "Installation: modules from a proxy, and examples/accounts in browsers"
  go test -count=1 -timeout=10m ./e2e/install
}
documentation() {
  step "Documentation: every block of README.md and docs"
  go test -count=1 -timeout=10m ./e2e/docs
}
website() {
  step "Browser: the documentation as a web site"
  scripts/site.sh
  cd e2e/js
  npm run --silent site
}
need jq jq
need curl curl
need php php-cli
need ruby ruby
need mcs mono-mcs libmono-system-net-http4.0-cil libmono-system-web4.0-cil
together python_memory python_redis browser backends
together installation documentation website
