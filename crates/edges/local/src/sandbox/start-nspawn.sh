# Starts one machine with systemd-nspawn: its network, its namespaces and its disk. This process lives exactly as long as the machine: either
# ends the other.
# Variables: FOLDER of the machine in the sandbox, ADDRESS with prefix length, GATEWAY, BRIDGE, PORT (the bridge's end of the cable), MAC,
# LAYERS (options of the overlay, with paths relative to BASE). Arguments: systemd-nspawn and its arguments.
set -eu

# Standard input is the machine's lock. The machine counts as running while this process or a descendant has it open.
exec 9<&0 </dev/null

# The device and the namespace may be left from an earlier start.
ip link delete "$PORT" 2>/dev/null || true
umount "$FOLDER/net" 2>/dev/null || true
: >"$FOLDER/net"
unshare --net="$FOLDER/net" true
ip link add "$PORT" type veth peer name host0 address "$MAC"
ip link set "$PORT" master "$BRIDGE" up
ip link set host0 netns "$FOLDER/net"
nsenter --net="$FOLDER/net" -- sh -euc '
ip link set lo up
ip address add "$ADDRESS" dev host0
ip link set host0 up
ip route add default via "$GATEWAY"
'

# The rename makes the process id appear all at once.
echo $$ >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
# Some shells replace themselves with their last command. The inner shell must remain, as the parent of systemd-nspawn.
exec nsenter --net="$FOLDER/net" -- unshare --mount --pid --fork --kill-child -- sh -euc '
mount -t proc proc /proc
# The layers are below BASE, which the next mount may hide; the working directory still reaches them.
cd "$BASE"
# systemd-nspawn keeps its state in /run.
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/tree
mount -t overlay overlay -o "$LAYERS" /run/tree
cd /
"$@" || exit $?
' inside "$@"
