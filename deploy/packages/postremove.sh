#!/bin/sh
# Runs after the files are gone: dpkg calls it with "remove", and with "purge" if the configuration is to go too. rpm
# has no purge, and leaves the secrets. The user stays: files may belong to it.
set -e
if [ "$1" = purge ]; then
  rm -f /etc/gyro/gyro.env
  rm -rf /var/log/gyro
  [ ! -d /etc/gyro ] || rmdir --ignore-fail-on-non-empty /etc/gyro
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
