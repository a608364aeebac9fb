#!/usr/bin/env bash
# Writes the files of Swagger UI that the server embeds, from its npm package, whose checksum has to
# be the one below. To update it, set the version, and the checksum that `npm view` prints as
# dist.integrity. Nothing of the package is run.
set -euo pipefail
cd "$(dirname "$0")/.."
version=5.35.0
integrity=sha512-U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ==
files="LICENSE NOTICE swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css"

. scripts/lib.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
retry npm pack --silent --pack-destination "$folder" "swagger-ui-dist@$version" >/dev/null
found="sha512-$(openssl dgst -sha512 -binary "$folder/swagger-ui-dist-$version.tgz" | base64 -w0)"
[ "$found" = "$integrity" ] || { echo "the package has the checksum $found, not $integrity" >&2; exit 1; }
tar -xzf "$folder/swagger-ui-dist-$version.tgz" -C "$folder"
rm -f server/internal/web/swagger/ui/*.gz
for file in $files; do
  gzip -9nc "$folder/package/$file" >"server/internal/web/swagger/ui/$file.gz"
done
