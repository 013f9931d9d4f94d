# Switches one machine on by systemd-nspawn: its control groups, its network, its namespaces. This process is the machine: it ends when the
# machine does, and the machine ends when it is killed.
# Variables: FOLDER of the machine in the world, WORLD (name of the world's control groups), ADDRESS with the length of the network,
# GATEWAY, BRIDGE, WIRE (name of the bridge's end), MAC, LAYERS (options of the overlay) as seen from BASE, TOOLS (root that
# systemd-nspawn is taken from; empty: this system's own), NAME of the machine. Arguments: those of systemd-nspawn.
set -eu

# The input is the machine's lock, taken by who started this. The machine is on for as long as this process or one that comes from it
# has it open.
exec 9<&0 </dev/null

hierarchies() {
    if [ -e /sys/fs/cgroup/cgroup.procs ]; then
        echo /sys/fs/cgroup
    else
        # One name per hierarchy: cpu and cpuacct may be one folder and a link.
        for one in /sys/fs/cgroup/*; do
            if [ -e "$one/cgroup.procs" ] && [ ! -L "$one" ]; then echo "$one"; fi
        done
    fi
}

# Groups that systemd-nspawn alone is in.
alone=
for hierarchy in $(hierarchies); do
    own=$hierarchy/$WORLD/$NAME
    # What an earlier life left may pass controllers on, and takes no process then.
    find "$own" -depth -type d -exec rmdir {} + 2>/dev/null || true
    mkdir -p "$own"
    # A new group of this hierarchy has no processor and no memory, and takes no process.
    if [ -e "$own/cpuset.cpus" ] && [ -e "$hierarchy/cpuset.mems" ]; then
        cat "$hierarchy/$WORLD/cpuset.cpus" >"$own/cpuset.cpus"
        cat "$hierarchy/$WORLD/cpuset.mems" >"$own/cpuset.mems"
    fi
    # Version 2: a group that passes controllers on to those below it holds no process itself. systemd-nspawn passes those of its own group on
    # to the machine, so that nobody else may be in it.
    if [ -e "$own/cgroup.subtree_control" ]; then
        for controller in $(cat "$own/cgroup.controllers"); do echo "+$controller" >"$own/cgroup.subtree_control" 2>/dev/null || true; done
        mkdir -p "$own/main" "$own/machine"
        alone="$alone $own/machine"
        own=$own/main
    fi
    echo $$ >"$own/cgroup.procs"
done
export ALONE="$alone"

# What an earlier life of the machine left.
ip link delete "$WIRE" 2>/dev/null || true
umount "$FOLDER/net" 2>/dev/null || true
: >"$FOLDER/net"
unshare --net="$FOLDER/net" true
ip link add "$WIRE" type veth peer name host0 address "$MAC"
ip link set "$WIRE" master "$BRIDGE" up
ip link set host0 netns "$FOLDER/net"
nsenter --net="$FOLDER/net" -- sh -euc '
ip link set lo up
ip address add "$ADDRESS" dev host0
ip link set host0 up
ip route add default via "$GATEWAY"
'

# Written whole or not at all: who finds it finds this process.
echo $$ >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
# Some shells become their last command; the inner one must stay, as the parent of systemd-nspawn.
exec nsenter --net="$FOLDER/net" -- unshare --mount --pid --fork --kill-child -- sh -euc '
mount -t proc proc /proc
# Both are on the file system of the state folder, which the next mount may hide.
cd "$BASE"
# systemd-nspawn keeps its books in /run.
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/tree
# With one device number for all files, as a disk has; whoever looks for mounts by it would find one in every file otherwise.
mount -t overlay overlay -o "$LAYERS,xino=on" /run/tree
cd /
enter="for group in \$ALONE; do echo \$\$ >\"\$group/cgroup.procs\"; done; exec \"\$@\""
if [ -z "$TOOLS" ]; then
    sh -euc "$enter" enter systemd-nspawn "$@" || exit $?
else
    library=$TOOLS/usr/lib/$(uname -m)-linux-gnu
    for loader in "$TOOLS"/usr/lib64/ld-linux-*.so.* "$TOOLS"/usr/lib/ld-linux-*.so.*; do
        if [ -e "$loader" ]; then break; fi
    done
    sh -euc "$enter" enter "$loader" --library-path "$library:$library/systemd" "$TOOLS/usr/bin/systemd-nspawn" "$@" || exit $?
fi
' inside --quiet --directory=/run/tree --boot --register=no --keep-unit --machine="$NAME" --console=pipe "$@"
