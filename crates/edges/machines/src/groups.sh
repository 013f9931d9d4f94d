# Functions for control groups, for both versions of the kernel's interface. Included at the start of other scripts.

# Prints the root folder of each hierarchy once: cpu and cpuacct may be one folder and a link to it.
hierarchies() {
    if [ -e /sys/fs/cgroup/cgroup.procs ]; then
        echo /sys/fs/cgroup
    else
        for folder in /sys/fs/cgroup/*; do
            if [ -e "$folder/cgroup.procs" ] && [ ! -L "$folder" ]; then echo "$folder"; fi
        done
    fi
}

# Creates a group. Arguments: hierarchy, path of the group in it. A new cpuset group has no processors and no memory, and accepts no process
# until it has some.
create_group() {
    mkdir -p "$1/$2"
    if [ -e "$1/$2/cpuset.cpus" ] && [ -e "$1/cpuset.mems" ]; then
        cat "$1/cpuset.cpus" >"$1/$2/cpuset.cpus"
        cat "$1/cpuset.mems" >"$1/$2/cpuset.mems"
    fi
}

# Removes a group and the groups below it, except those that have processes. Argument: its folder.
remove_group() {
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
}

