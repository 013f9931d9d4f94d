# Runs kilnd in a private mount namespace whose root is a partition on a disk with free space behind it.
# Arguments: a root that contains the tools, the kilnd binary, an empty folder, the NodeConfig.
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
# Always detach exactly the device that was attached above.
trap 'cd /; umount --recursive "$work/root" || :; partx --delete "$device" || :; losetup --detach "$device"' EXIT
partition=${device}p1

# Runs a program from the tools root on the devices of this machine.
tool() {
    unshare --mount sh -euc 'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; mount --rbind /sys "$0/sys"; exec chroot "$0" "$@"' "$tools" "$@"
}
printf 'label: gpt\n2048,32M\n' | tool sfdisk --quiet "$device"
# Add the partition explicitly if the kernel did not scan the table.
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
