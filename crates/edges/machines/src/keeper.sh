# Runs a command in new namespaces and in a control group of its own, and removes the group when the last process is gone.
# Arguments: name of the group, ending in `-` and the process id of the program that starts this; the command and its arguments.
set -eu
name=$1
shift
# A signal to the terminal's process group is meant for the command. The traps run when the command has ended. They are no `trap ''`, which
# the command would inherit.
trap : HUP INT TERM

clean() {
    for hierarchy in $(hierarchies); do
        if [ ! -e "$hierarchy/$name" ]; then continue; fi
        echo $$ >"$hierarchy/cgroup.procs" || true
        # A group is busy until the kernel has released its last process.
        for attempt in 1 2 3 4 5 6 7 8 9 10; do
            remove_group "$hierarchy/$name"
            if [ ! -e "$hierarchy/$name" ]; then break; fi
            sleep 0.1
        done
    done
}

# Groups left by keepers that were killed: the program that started them is gone. A group with this name is from an earlier process with
# the same id.
for hierarchy in $(hierarchies); do
    for left in "$hierarchy/${name%-*}"-*; do
        if [ ! -e "$left" ]; then continue; fi
        if [ "$left" = "$hierarchy/$name" ] || [ ! -e "/proc/${left##*-}" ]; then remove_group "$left"; fi
    done
done

trap clean EXIT
for hierarchy in $(hierarchies); do
    create_group "$hierarchy" "$name"
    own=$hierarchy/$name
    # In version 2, a group that enables controllers for the groups below it has no processes itself. Some controllers may not be available.
    if [ -e "$own/cgroup.subtree_control" ]; then
        for controller in $(cat "$own/cgroup.controllers"); do echo "+$controller" >"$own/cgroup.subtree_control" 2>/dev/null || true; done
        own=$own/main
        mkdir "$own"
    fi
    echo $$ >"$own/cgroup.procs"
done

code=0
# The death of this shell ends the command too.
setpriv --pdeathsig KILL -- unshare --mount --pid --net --fork --kill-child -- "$@" || code=$?
exit $code
