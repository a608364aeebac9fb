#!/usr/bin/env bash
# Runs every fuzz target of the repository for a while: fuzz.sh [DURATION]
# Minimizing what is merely interesting would take most of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-20s}
git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | while read -r dir; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | cut -d' ' -f2 | while read -r target; do
    echo "== $dir $target"
    (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 100x . </dev/null)
  done
done
