//! Grows the root partition and its file system on a real disk with the real tools. Tier 2, because the test root with `sfdisk` is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use test_deps::TestDep;
use testkit::require;

/// Required to grow a mounted ext4; see capability.h.
const CAP_SYS_RESOURCE: u32 = 24;

fn may_grow_file_systems() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("capabilities");
    u64::from_str_radix(effective, 16).expect("a number") >> CAP_SYS_RESOURCE & 1 == 1
}

#[test]
fn mounted_root_grows_into_the_free_space_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": 1},
        "spec": {
            "cluster": {
                "endpoint": "https://prod.example:443",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.34.4"},
            "platform": {"growRoot": true},
        },
    });
    let config = folder.path().join("config.json");
    fs::write(&config, document.to_string()).expect("written");
    let work = folder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    let proof = require(TestDep::BenchRoot);
    let tools = proof.ancestors().nth(3).expect("a root");
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grow_root.sh"))
        .args([tools, Path::new(env!("CARGO_BIN_EXE_kilnd")), &work, &config])
        .output()
        .expect("unshare");
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}");
    let sizes: BTreeMap<&str, (u64, u64)> = printed
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [when, partition, blocks] = words[..] else { return None };
            Some((when, (partition.parse().ok()?, blocks.parse().ok()?)))
        })
        .collect();
    let (before, first, again) = (sizes["before"], sizes["first"], sizes["again"]);
    assert_eq!(before.0, 65536, "32 MiB: {printed}");
    // Almost all of the 96 MiB; the partition table needs the rest.
    assert!(first.0 > 190_000, "the kernel knows the partition's new end: {printed}");
    assert_eq!(again.0, first.0, "the partition grows only once");
    if may_grow_file_systems() {
        assert!(first.1 > before.1 * 2 && !printed.contains("warning"), "{printed}");
        assert!(!printed.contains("again: grow"), "nothing is left to do: {printed}");
    } else {
        // The sandbox lacks the capability: kilnd reports the failure instead of success.
        assert_eq!(first.1, before.1, "{printed}");
        let failed =
            |line: &&str| line.contains("systemd-growfs /` failed") && line.contains("Operation not permitted");
        let times = |when: &str| printed.lines().filter(|line| line.starts_with(when)).filter(failed).count();
        assert!(times("first: ") > 0 && times("again: ") > 0, "growing the file system is retried: {printed}");
    }
}
