#!/usr/bin/env bash
# Runs a cluster with up to a million connections on this machine (docs/million.md): CONNS, NODES, SHARDS, LOADS, IDLE, STEP, DRAIN, PING,
# PHASES and OUT in the environment; what is empty is as the program has it. It ends everything that it started, also after Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

need redis-server
mkdir -p .cache
go build -o .cache/million-stand ./e2e/cmd/million
options=()
for name in conns nodes shards loads idle step drain ping phases out; do
  variable=${name^^}
  [ -z "${!variable:-}" ] || options+=("-$name" "${!variable}")
done

# network ARGUMENTS... tries to run them in a network of their own, whose table of connections has room for two million sockets. The
# machine's often has 262,144 places, where looking up the socket of each packet takes an eighth of the processors. It needs root or user
# namespaces, and Linux 6.1; else it returns.
network() {
  local user=()
  [ "$(id -u)" = 0 ] || user=(-r)
  local table=/proc/sys/net/ipv4/tcp_child_ehash_entries # of networks that are made within one
  local enter='echo 4194304 >'"$table"' && exec unshare -n sh -c "ip link set lo up && exec \"\$@\"" sh "$@"'
  need ip || return 0
  ! unshare "${user[@]}" -n sh -c "$enter" sh true 2>/dev/null || exec unshare "${user[@]}" -n sh -c "$enter" sh "$@"
}

network .cache/million-stand "${options[@]}"
exec .cache/million-stand "${options[@]}"
