#!/usr/bin/env bash
# Checks the format and the lint rules of all TypeScript and JavaScript, or of the files that are given, by biome: its rules are
# in biome.jsonc, its version in tools/biome. With --fix it formats, and mends what can be mended safely.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

home=.cache/biome
fresh() { cmp -s tools/biome/package-lock.json "$home/installed"; }
install() {
  fresh && return
  mkdir -p "$home"
  cp tools/biome/package.json tools/biome/package-lock.json "$home"
  retry npm --prefix "$home" ci --silent --no-audit --no-fund
  cp tools/biome/package-lock.json "$home/installed"
}
fresh || alone "$PWD/$home" install

command=(ci)
if [ "${1:-}" = --fix ]; then
  command=(check --write)
  shift
fi
[ -t 1 ] || command+=(--colors=off)
exec "$home/node_modules/.bin/biome" "${command[@]}" --error-on-warnings --no-errors-on-unmatched --max-diagnostics=200 "$@"
