#!/bin/sh
# Runs before the files go: dpkg calls it with "remove", and with "upgrade" for a new version, rpm with 0 and with 1.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now gyro.service
fi
