//! The data of a real containerd: a clone keeps complete images and none of the data that containers wrote.

use std::process::Command;

use testkit::TestDep;

/// Runs in private namespaces and ends with its parent. It mounts a tmpfs (overlays cannot be nested), starts containerd with an image and
/// two containers, runs `kilnd identity` with another VM id, and starts containerd again.
const SCRIPT: &str = r#"
set -eu
PARTS=$1 KILND=$2 WORK=$3
mount -t tmpfs tmpfs "$WORK"
DISK=$WORK/disk
SNAPSHOTS=$DISK/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots
mkdir -p "$DISK/var/lib/containerd" "$DISK/var/lib/kiln" "$DISK/sys/class/dmi/id"
printf 'version = 2\nroot = "%s"\nstate = "%s"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "%s"\n' \
    "$DISK/var/lib/containerd" "$WORK/state" "$WORK/sock" >"$WORK/config.toml"
export LD_LIBRARY_PATH=$PARTS/usr/lib/x86_64-linux-gnu
start() {
    rm -f "$WORK/sock"
    "$PARTS/usr/bin/containerd" --config "$WORK/config.toml" >"$WORK/log" 2>&1 &
    PID=$!
    for _ in $(seq 100); do if [ -S "$WORK/sock" ]; then return; fi; sleep 0.1; done
    cat "$WORK/log"; exit 1
}
stop() { kill "$PID"; wait "$PID" || true; }
ctr() { "$PARTS/usr/bin/ctr" -a "$WORK/sock" -n k8s.io "$@"; }
blob() { sum=$(sha256sum "$1" | cut -d' ' -f1); cp "$1" "$WORK/oci/blobs/sha256/$sum"; size=$(wc -c <"$1"); }

mkdir -p "$WORK/oci/blobs/sha256" "$WORK/layer/bin"
echo 'of the image' >"$WORK/layer/bin/pause"
tar -cf "$WORK/layer.tar" -C "$WORK/layer" bin
blob "$WORK/layer.tar"; layer=$sum layer_size=$size
printf '{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$layer" >"$WORK/c"
blob "$WORK/c"; config=$sum config_size=$size
T=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json","digest":"sha256:%s","size":%d},"layers":[{"mediaType":"%s.layer.v1.tar","digest":"sha256:%s","size":%d}]}' \
    $T $T "$config" "$config_size" $T "$layer" "$layer_size" >"$WORK/m"
blob "$WORK/m"
printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s.manifest.v1+json","digest":"sha256:%s","size":%d,"annotations":{"io.containerd.image.name":"example.com/pause:3.9"}}]}' \
    $T "$sum" "$size" >"$WORK/oci/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$WORK/oci/oci-layout"
tar -cf "$WORK/image.tar" -C "$WORK/oci" .

start
ctr images import "$WORK/image.tar" >"$WORK/import" 2>&1 || { cat "$WORK/import"; exit 1; }
image=$(ctr snapshots ls | awk '/Committed/ { print $1 }')
ctr snapshots prepare container-1 "$image" >/dev/null
ctr snapshots prepare container-2 "$image" >/dev/null
stop
for folder in "$SNAPSHOTS"/*; do
    # The image's own layer contains the program; the other snapshots belong to containers.
    [ -e "$folder/fs/bin/pause" ] || echo tenant-data >"$folder/fs/written"
done
echo "written $(grep -rl tenant-data "$DISK" | wc -l)"

echo 11111111-2222-4333-8444-555555555555 >"$DISK/var/lib/kiln/vm-id"
echo aaaaaaaa-0000-4000-8000-000000000001 >"$DISK/sys/class/dmi/id/product_uuid"
"$KILND" inspect --root "$DISK" --output json >"$WORK/inspection"
grep -o '"cachedImages":\[[^]]*\]' "$WORK/inspection"
"$KILND" identity --root "$DISK" 2>"$WORK/identity" || { cat "$WORK/identity"; exit 1; }
echo "left $(grep -rl tenant-data "$DISK" | wc -l)"

start
ctr images check | awk '/example.com/ { print "image", $4, $NF }'
ctr snapshots prepare after "$image" >/dev/null
ctr snapshots mounts "$WORK/mounted" after >"$WORK/mount"
mkdir "$WORK/mounted"; sh "$WORK/mount"
cat "$WORK/mounted/bin/pause"
stop
"#;

#[test]
fn clone_keeps_complete_images_and_no_container_data() {
    // The dependency is found by a program in its root, `root/usr/bin/…`.
    let program = testkit::require(TestDep::NodeRoot);
    let parts = program.ancestors().nth(3).expect("a root");
    let work = tempfile::tempdir().expect("a folder");
    let output = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SCRIPT, "sh"])
        .arg(parts)
        .arg(env!("CARGO_BIN_EXE_kilnd"))
        .arg(work.path())
        .output()
        .expect("unshare");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    let wanted = [
        "written 2",
        "\"cachedImages\":[\"example.com/pause:3.9\"]",
        "clone boot",
        "left 0",
        "image complete true",
        "of the image",
    ];
    assert_eq!(lines, wanted);
}
