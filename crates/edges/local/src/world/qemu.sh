# Switches one virtual machine on. This process is the machine: it ends when the machine does, and the machine ends when it is killed.
# Variables: FOLDER of the machine in the world, BRIDGE, WIRE (name of the tap device). Arguments: QEMU and its own.
set -eu

# The input is the machine's lock, taken by who started this. The machine is on for as long as this process or one that comes from it
# has it open.
exec 9<&0 </dev/null

# What an earlier life of the machine left.
ip link delete "$WIRE" 2>/dev/null || true
ip tuntap add dev "$WIRE" mode tap
ip link set "$WIRE" master "$BRIDGE" up

# Written whole or not at all: who finds it finds this process.
echo $$ >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
# Some shells become their last command; this one must stay, as the parent of QEMU.
exec unshare --mount --pid --fork --kill-child -- sh -euc 'mount -t proc proc /proc; "$@" || exit $?' inside "$@"
