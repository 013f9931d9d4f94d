# The first process of a machine's own namespaces: when it ends, the kernel ends the rest and unmounts what was mounted here.
# It ends when its standard input does. Arguments: the root to boot copies of, the machine's name, arguments of systemd-nspawn.
set -eu
root=$1
name=$2
shift 2
mount -t proc proc /proc
# Small numbers of files leave room for the layer's own, see below. systemd-nspawn keeps its books in /run; the machine's disk is there too, so that nothing of it outlives this namespace.
mount -t tmpfs -o mode=0755,inode32 tmpfs /run
cd /run
mkdir disk work tree binds hardware
ip link set lo up
# Where a cloud answers; in this namespace nobody else does.
ip address add 169.254.169.254/32 dev lo
ip address add 168.63.129.16/32 dev lo

nspawn() {
    library=$root/usr/lib/$(uname -m)-linux-gnu
    for loader in "$root"/usr/lib64/ld-linux-*.so.* "$root"/usr/lib/ld-linux-*.so.*; do
        if [ -e "$loader" ]; then break; fi
    done
    exec "$loader" --library-path "$library:$library/systemd" "$root/usr/bin/systemd-nspawn" \
        --quiet --directory=/run/tree --boot --register=no --keep-unit --machine="$name" --console=pipe --bind-ro=/run/hardware:/hardware "$@"
}

echo ready
while read -r word; do
    case $word in
    mount)
        # With one device number for all files, as a disk has; whoever looks for mounts by it would find one in every file otherwise.
        mount -t overlay overlay -o "lowerdir=$root,upperdir=/run/disk,workdir=/run/work,xino=on" tree
        echo mounted
        ;;
    boot)
        (nspawn "$@") </dev/null >>/run/console 2>&1 &
        machine=$!
        echo booting
        ;;
    wait)
        code=0
        wait "$machine" || code=$?
        echo "ended $code"
        ;;
    esac
done
