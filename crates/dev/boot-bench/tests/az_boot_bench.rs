//! A machine with a kernel of its own, booted by the lab: what it shows of a node that kilnd made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_deps::TestDep;
use testkit::require;

/// Where the boots of this test go: not where somebody measures.
fn work() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("az_boot_bench")
}

fn text(boot: &str, file: &str) -> String {
    let path = work().join("out").join(boot).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Size of the root in MiB, by `df`.
fn root_size(boot: &str) -> u64 {
    let text = text(boot, "df.txt");
    let size = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    size.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn kilnd_makes_the_floor_s_node_before_the_lease_and_turns_on_swap_and_grows_the_root() {
    require(TestDep::BenchTools);
    require(TestDep::BenchRoot);
    let mut lab = Command::new(env!("CARGO_BIN_EXE_boot-bench"));
    lab.args(["boot", "--icount", "--output", "json"]);
    for variant in ["floor", "kilnd", "cloud-init", "disks"] {
        lab.args(["--variant", variant]);
    }
    let output = lab.arg("--work").arg(work()).output().expect("the lab");
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{said}"));

    let row = |name: &str| {
        let rows = report["variants"].as_array().expect("variants");
        rows.iter().find(|row| row["variant"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
    };
    assert!(row("kilnd")["ofFloor"].is_number(), "equal by diff, or there is no ratio: {report}");
    assert!(row("kilnd")["ofCloudInit"].is_number(), "cloud-init makes the same node: {report}");
    assert!(row("disks")["ofFloor"].is_null(), "another document makes another node: {report}");

    let (kubelet, lease) = (row("kilnd")["up"][0].as_f64(), row("kilnd")["lease"][0].as_f64());
    let (kubelet, lease) = (kubelet.expect("a kubelet"), lease.expect("a lease, by the time of the report"));
    assert!(kubelet < lease, "kubelet at {kubelet} s, the lease at {lease} s");

    let swaps = text("disks-1", "swaps.txt");
    assert!(swaps.contains("/var/lib/kiln/swapfile"), "{swaps}");
    assert!(!text("kilnd-1", "swaps.txt").contains("swapfile"), "nobody asked for it there");
    let (before, after) = (root_size("kilnd-1"), root_size("disks-1"));
    assert!(after > before + 500, "a file system of {before} MiB on a disk of 4 GiB has {after} MiB");
    // Drawn after the boots; ratios are not judged by one boot of each, so nothing else can end it otherwise.
    assert!(output.status.success(), "{said}");
    for boot in ["kilnd-1", "cloud-init-1"] {
        let chain = text(boot, "chain.txt");
        assert!(chain.contains("kubelet.service"), "{boot}: {chain}");
        assert!(text(boot, "boot.svg").trim_end().ends_with("</svg>"), "{boot}");
    }

    // Gigabytes that nobody looks at when all is well.
    let _ = fs::remove_dir_all(work());
}
