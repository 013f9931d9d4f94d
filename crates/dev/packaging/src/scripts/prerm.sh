#!/bin/sh
# The gate must not outlive the program that opens it. If kilnd cannot be disabled, the package stays installed.
set -e
case "$1" in
remove) /usr/bin/kilnd disable --yes ;;
esac
