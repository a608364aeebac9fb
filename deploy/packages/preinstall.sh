#!/bin/sh
# Runs before the files are unpacked, of a first installation and of an upgrade, by dpkg and rpm.
set -e
getent group gyro >/dev/null || groupadd --system gyro
getent passwd gyro >/dev/null || useradd --system --gid gyro --no-create-home --home-dir /nonexistent \
  --shell /usr/sbin/nologin --comment "Gyro server" gyro
