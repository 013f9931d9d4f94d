# Starts one virtual machine. This process lives exactly as long as the machine: either ends the other.
# Variables: FOLDER of the machine in the sandbox, BRIDGE, PORT (the tap device). Arguments: QEMU and its arguments.
set -eu

# Standard input is the machine's lock. The machine counts as running while this process or a descendant has it open.
exec 9<&0 </dev/null

# The device may be left from an earlier start.
ip link delete "$PORT" 2>/dev/null || true
ip tuntap add dev "$PORT" mode tap
ip link set "$PORT" master "$BRIDGE" up

# The rename makes the process id appear all at once.
echo $$ >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
# Some shells replace themselves with their last command. The inner shell must remain, as the parent of QEMU.
exec unshare --mount --pid --fork --kill-child -- sh -euc 'mount -t proc proc /proc; "$@" || exit $?' inside "$@"
