# Holds a world's control groups: makes them, lets the world run in them, and removes them when the last process of the world is gone.
# Arguments: the name of the groups, the command to run in new namespaces.
set -eu
name=$1
shift
# A signal to the terminal's group is for the command; this shell hears it when the world has ended. Not ignored: that would be inherited.
trap : HUP INT TERM

hierarchies() {
    if [ -e /sys/fs/cgroup/cgroup.procs ]; then
        echo /sys/fs/cgroup
    else
        # One name per hierarchy: cpu and cpuacct may be one folder and a link.
        for folder in /sys/fs/cgroup/*; do
            if [ -e "$folder/cgroup.procs" ] && [ ! -L "$folder" ]; then echo "$folder"; fi
        done
    fi
}

# Removes a group with all below it, except where somebody is in it.
remove() {
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
}

clean() {
    for hierarchy in $(hierarchies); do
        if [ ! -e "$hierarchy/$name" ]; then continue; fi
        echo $$ >"$hierarchy/cgroup.procs" || true
        # A group is busy until the kernel has buried its last process.
        for attempt in 1 2 3 4 5 6 7 8 9 10; do
            remove "$hierarchy/$name"
            if [ ! -e "$hierarchy/$name" ]; then break; fi
            sleep 0.1
        done
    done
}

# What keepers left that were killed: groups are named after who started the world. One of our own name is of an earlier process.
for hierarchy in $(hierarchies); do
    for left in "$hierarchy"/kiln-local-*; do
        if [ ! -e "$left" ]; then continue; fi
        if [ "$left" = "$hierarchy/$name" ] || [ ! -e "/proc/${left##*-}" ]; then remove "$left"; fi
    done
done

trap clean EXIT
for hierarchy in $(hierarchies); do
    own=$hierarchy/$name
    mkdir "$own"
    # A new group of this hierarchy has no processor and no memory, and takes no process.
    if [ -e "$own/cpuset.cpus" ] && [ -e "$hierarchy/cpuset.mems" ]; then
        cat "$hierarchy/cpuset.cpus" >"$own/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$own/cpuset.mems"
    fi
    # Version 2: a group that passes controllers on to those below it holds no process itself. Passed on is what the host passes on to us.
    if [ -e "$own/cgroup.subtree_control" ]; then
        for controller in $(cat "$own/cgroup.controllers"); do echo "+$controller" >"$own/cgroup.subtree_control" 2>/dev/null || true; done
        own=$own/main
        mkdir "$own"
    fi
    echo $$ >"$own/cgroup.procs"
done

code=0
# Whoever kills this shell ends the world too.
setpriv --pdeathsig KILL -- unshare --mount --pid --net --fork --kill-child -- "$@" || code=$?
exit $code
