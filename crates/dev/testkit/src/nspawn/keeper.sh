# Holds a machine's control groups: makes them, lets everything else run in them, and removes them when the last process is gone.
# Standard input goes through to inside.sh, so that the end of whoever holds it ends the machine, whatever ended them.
# Arguments: the machine's name, inside.sh, its arguments.
set -eu
name=$1
shift
# A signal to the terminal's group must not end the keeper before its machine.
trap '' HUP INT TERM

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

for hierarchy in $(hierarchies); do
    own=$hierarchy/$name
    mkdir "$own"
    # A new group of this hierarchy has no processor and no memory, and takes no process.
    if [ -e "$own/cpuset.cpus" ] && [ -e "$hierarchy/cpuset.mems" ]; then
        cat "$hierarchy/cpuset.cpus" >"$own/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$own/cpuset.mems"
    fi
    echo $$ >"$own/cgroup.procs"
done

code=0
unshare --mount --pid --net --fork --kill-child sh "$@" || code=$?

for hierarchy in $(hierarchies); do
    echo $$ >"$hierarchy/cgroup.procs"
    # A group is busy until the kernel has buried its last process.
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        find "$hierarchy/$name" -depth -type d -exec rmdir {} + 2>/dev/null || true
        if [ ! -e "$hierarchy/$name" ]; then break; fi
        sleep 0.1
    done
done
exit $code
