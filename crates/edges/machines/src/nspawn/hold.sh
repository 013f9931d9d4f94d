# Holds the namespaces and the disk of a machine until its standard input ends; then the kernel ends every process in them and unmounts
# everything. Arguments: folder to copy the disk from, or nothing for an empty disk; options of the overlay, with paths below /run.
set -eu
# systemd-nspawn keeps its state in /run. The disk is in the same tmpfs and ends with this namespace. 32-bit inode numbers leave room for the
# number of the layer, which overlayfs adds with xino=on.
mount -t tmpfs -o mode=0755,inode32 tmpfs /run
cd /run
mkdir disk work tree binds hardware
# The donor is named by its process id, which only the host's /proc knows. overlayfs records removed files in extended attributes.
if [ -n "$1" ]; then cp --archive "$1/." disk; fi
mount -t proc proc /proc
mount -t overlay overlay -o "$2" tree
echo ready
while read -r line; do :; done
