#!/bin/sh
# An installed package has no effect until `kilnd enable`. An enabled node gets the units of the new version; no service but kiln-watch restarts.
set -e
case "$1" in
configure | abort-upgrade) /usr/bin/kilnd enable --refresh ;;
esac
