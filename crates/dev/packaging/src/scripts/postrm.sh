#!/bin/sh
set -e
case "$1" in
purge) rm -rf /etc/kiln /var/lib/kiln /run/kiln ;;
esac
