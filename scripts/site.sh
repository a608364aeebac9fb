#!/usr/bin/env bash
# Builds the documentation as a web site, into .cache/site, with the reference of the client for JavaScript, from its types and their comments. With --serve it also
# serves the site, on loopback. With --reference it makes the reference alone, in .cache/reference.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
out=$PWD/.cache

# What the reference is made of, by their content.
ingredients() { cat clients/js/src/*.ts clients/js/src/*/*.ts clients/js/README.md clients/js/package-lock.json site/typedoc.json site/logo.svg site/package-lock.json | sha256sum; }

reference() {
  local made
  made=$(ingredients)
  [ "$(cat "$out/reference/made" 2>/dev/null)" != "$made" ] || return 0
  modules clients/js
  npm --prefix site run --silent reference
  echo "$made" >"$out/reference/made"
}

modules site
if [ "${1:-}" = --reference ]; then
  reference
  exit
fi
reference &
npm --prefix site run --silent build
wait $!
mkdir -p "$out/site/reference"
cp -R "$out/reference/client-js" "$out/site/reference/"
npm --prefix site run --silent check
[ "${1:-}" != --serve ] || exec npm --prefix site run --silent preview -- --host 127.0.0.1
