# What runs in the machine of a case that boots may use these.

# A property of a unit.
property() {
    systemctl show --value --property "$2" "$1"
}

# Whether a unit's turn came in this boot and passed, because its condition did not hold.
skipped() {
    [ "$(property "$1" ConditionTimestampMonotonic)" != 0 ] && [ "$(property "$1" ConditionResult)" = no ]
}

# How often kubelet was started on this disk.
starts() {
    cat /var/lib/stand-in/kubelet 2>/dev/null | wc -l
}

# How many pods kubelet may run, by its configuration in force.
pods() {
    grep -o '"maxPods": *[0-9]*' /etc/kiln/current/kubelet.json | tr -dc '0-9\n'
}

# Says which of two moments came first: unit and property, twice.
order() {
    first=$(property "$1" "$2")
    second=$(property "$3" "$4")
    if [ "$first" -eq 0 ] || [ "$second" -eq 0 ]; then echo "$1 at $first, $3 at $second"; return 1; fi
    if [ "$first" -le "$second" ]; then echo "$1, then $3"; else echo "$3, then $1"; fi
}
