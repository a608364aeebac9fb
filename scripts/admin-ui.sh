#!/usr/bin/env bash
# admin-ui.sh [FOLDER] tests and builds the admin web application of the folder admin, and writes the files that the server embeds
# to FOLDER, server/internal/operators/admin/ui by default. The versions of everything that takes part are in admin/package-lock.json, so the same
# sources make the same files.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/lib.sh

most=$((150 * 1024)) # bytes of all files, compressed
ui=$(realpath -m "${1:-server/internal/operators/admin/ui}")
cd admin
modules .
npm run --silent test
npm run --silent build -- --logLevel=warn
mkdir -p "$ui"
rm -f "$ui"/*.gz
for file in dist/*; do
  gzip -9nc "$file" >"$ui/$(basename "$file").gz"
done
gzip -9nc node_modules/uplot/LICENSE >"$ui/uplot.LICENSE.txt.gz"
gzip -9nc node_modules/preact/LICENSE >"$ui/preact.LICENSE.txt.gz"
size=$(cat "$ui"/*.gz | wc -c)
[ "$size" -le "$most" ] || { echo "the admin web application has $size bytes compressed, at most $most are allowed" >&2; exit 1; }
