# A machine in a mount namespace of its own, whose root is a partition on a disk with room behind it. kilnd runs in it.
# Arguments: a root with the tools, kilnd, an empty folder, the document.
set -eu
tools=$1
kilnd=$2
work=$3
document=$4
mount --make-rprivate /
mount -t tmpfs tmpfs "$work"
cd "$work"
mkdir root
truncate -s 96M disk
device=$(losetup --find --show --partscan disk)
# Whatever happens, the device is given back by its own name.
trap 'cd /; umount --recursive "$work/root" || :; partx --delete "$device" || :; losetup --detach "$device"' EXIT
partition=${device}p1

# Runs a tool of the root with the tools, on the devices of this machine.
tool() {
    unshare --mount sh -euc 'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; mount --rbind /sys "$0/sys"; exec chroot "$0" "$@"' "$tools" "$@"
}
printf 'label: gpt\n2048,32M\n' | tool sfdisk --quiet "$device"
# A kernel that reads no tables is told.
[ -b "$partition" ] || partx --add "$device"
mkfs.ext4 -q "$partition"

mount "$partition" root
(cd root && mkdir -p usr dev proc sys run etc var/lib tmp && for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$folder"; done)
cp "$tools/etc/passwd" "$tools/etc/group" "$tools/etc/shadow" root/etc
cp "$document" root/config.json
: >root/kilnd
mount --bind "$kilnd" root/kilnd
mount --bind "$tools/usr" root/usr
mount --rbind /dev root/dev
mount -t proc proc root/proc
mount --rbind /sys root/sys

sizes() {
    echo "$1 $(cat "/sys/class/block/${partition#/dev/}/size") $(stat --file-system --format=%b root)"
}
sizes before
for time in first again; do
    chroot root /kilnd apply --config /config.json --force --dmi /nowhere 2>&1 | sed "s/^/$time: /"
    sizes "$time"
done
