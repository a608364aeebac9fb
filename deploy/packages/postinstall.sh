#!/bin/sh
# Runs after the files are unpacked: dpkg calls it with "configure" and the version before, rpm with 1 for a first
# installation and with 2 for an upgrade.
set -e
case "$1" in
configure) before=$2 ;;
1) before= ;;
2) before=some ;;
*) exit 0 ;; # dpkg undoes something
esac

if [ -z "$before" ]; then
  chown root:gyro /etc/gyro
  chmod 0750 /etc/gyro
  if [ -e /etc/gyro/config.json ]; then
    chown root:gyro /etc/gyro/config.json
    chmod 0640 /etc/gyro/config.json
  fi
  # Secrets of this machine alone; not where a configuration that was here before has its own, which these would replace.
  if [ ! -e /etc/gyro/gyro.env ] && ! grep -Eqs '"(hmac_secret_key|key)"' /etc/gyro/config.json; then
    gyro genconfig -c /etc/gyro/gyro.env
    chown root:gyro /etc/gyro/gyro.env
    chmod 0640 /etc/gyro/gyro.env
  fi
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # Clients are told to reconnect, and come back to the new version.
  [ -z "$before" ] || systemctl try-restart gyro.service
fi
if [ -z "$before" ]; then
  echo "Gyro is installed and does not run yet. Its settings are in /etc/gyro/config.json, its secrets in /etc/gyro/gyro.env."
  echo "To start it, now and with the machine: systemctl enable --now gyro"
fi
