#!/usr/bin/env bash
# Tidies go.mod and go.sum of modules, given by their folders. go mod tidy works without the workspace, and would
# look for the version of the other modules that is not published yet: it gets a copy of go.mod in which their
# folders replace them.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
path() { awk '/^module / { print $2 }' "$1/go.mod"; }

for module in "$@"; do
  cp "$module/go.mod" "$module/go.sum" "$copy"
  for other in "$@"; do
    [ "$other" = "$module" ] || go mod edit -replace="$(path "$other")=$PWD/$other" "$copy/go.mod"
  done
  (cd "$module" && GOWORK=off go mod tidy -modfile="$copy/go.mod")
  for other in "$@"; do
    go mod edit -dropreplace="$(path "$other")" "$copy/go.mod"
  done
  cp "$copy/go.mod" "$copy/go.sum" "$module"
done
