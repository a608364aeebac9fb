#!/usr/bin/env bash
# Makes the packages and the image for this machine, and installs and runs them in a clean Debian (e2e/packages). That
# needs root, and a Debian or Ubuntu. With "systemd", it runs the deb under a systemd of its own instead.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

if ! command -v apt-get >/dev/null; then
  echo "there is no apt-get: the packages are not tried"
  exit
fi
need mmdebstrap rpm strace systemd-analyze logrotate
which="${1:-}"
root="$PWD/.cache/clean-root$which.tar"
include=passwd
[ "$which" != systemd ] || include=passwd,systemd,systemd-sysv,dbus,procps
mkdir -p .cache
if [ ! -e "$root" ]; then
  step "A clean root: Debian 12, with what every installation has"
  retry as_root mmdebstrap --quiet --format=tar --variant=essential --include="$include" bookworm "$root.new"
  mv -f "$root.new" "$root"
fi

step "What a release has for this machine, made twice: in this folder and in a copy of it"
dist="$PWD/.cache/packages"
rm -rf "$dist"
mkdir -p "$dist/tree"
go build -o .cache/release ./tools/release
target="linux/$(go env GOARCH)"
.cache/release -targets "$target" -out "$dist/first"
if [ "$which" = systemd ]; then
  step "The deb under systemd"
  go test -c -o .cache/packages.test ./e2e/packages
  cd e2e/packages
  as_root env E2E_ROOT="$root" E2E_DIST="$dist/first" E2E_SYSTEMD=1 ../../.cache/packages.test -test.v -test.timeout=5m -test.run TestSystemd
  exit
fi
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -C "$dist/tree" -xf -
GIT_DIR="$(git rev-parse --absolute-git-dir)" .cache/release -targets "$target" -tree "$dist/tree" -out "$dist/second" >/dev/null
rm -rf "$dist/tree"

step "deb and rpm in a clean root, the unit, the image"
go test -c -o .cache/packages.test ./e2e/packages
cd e2e/packages
as_root env E2E_ROOT="$root" E2E_DIST="$dist/first" E2E_AGAIN="$dist/second" ../../.cache/packages.test -test.v -test.timeout=5m
