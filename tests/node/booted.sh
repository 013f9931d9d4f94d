# Functions for commands that run in the machine of a booted case.

# Prints a property of a unit.
property() {
    systemctl show --value --property "$2" "$1"
}

# Whether systemd skipped a unit in this boot because a condition was not met.
skipped() {
    [ "$(property "$1" ConditionTimestampMonotonic)" != 0 ] && [ "$(property "$1" ConditionResult)" = no ]
}

# Prints how often the kubelet was started on this disk.
starts() {
    cat /var/lib/stand-in/kubelet 2>/dev/null | wc -l
}

# Prints maxPods of the kubelet configuration in force.
pods() {
    grep -o '"maxPods": *[0-9]*' /etc/kiln/current/kubelet.json | tr -dc '0-9\n'
}

# Prints which of two timestamps is earlier. Arguments: unit and property, twice.
order() {
    first=$(property "$1" "$2")
    second=$(property "$3" "$4")
    if [ "$first" -eq 0 ] || [ "$second" -eq 0 ]; then echo "$1 at $first, $3 at $second"; return 1; fi
    if [ "$first" -le "$second" ]; then echo "$1, then $3"; else echo "$3, then $1"; fi
}
