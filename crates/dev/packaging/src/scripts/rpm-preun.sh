# The gate must not outlive the program that opens it. If kilnd cannot be disabled, the package stays installed. The argument is the number of
# versions that remain: not 0 during an upgrade.
if [ "$1" -eq 0 ]; then
    /usr/bin/kilnd disable --yes
fi
