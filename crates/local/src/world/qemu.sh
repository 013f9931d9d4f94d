# Switches one virtual machine on. This process is the machine: it ends when the machine does, and the machine ends when it is killed.
# Variables: FOLDER of the machine in the world, BRIDGE, WIRE (name of the tap device). Arguments: QEMU and its own.
set -eu

# Held by this process and those that come from it: the machine is on for as long as somebody holds it.
exec 9>>"$FOLDER/lock"
flock --nonblock 9 || exit 0

# What an earlier life of the machine left.
ip link delete "$WIRE" 2>/dev/null || true
ip tuntap add dev "$WIRE" mode tap
ip link set "$WIRE" master "$BRIDGE" up

# Written whole or not at all: who finds it finds this process.
echo $$ >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
exec unshare --mount --pid --fork --kill-child -- sh -euc 'mount -t proc proc /proc; "$@"' inside "$@"
