//! `kiln boot`, as somebody with a slow node uses it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Three seconds of boot: the network is waited for, and kubelet comes after it.
const CAPTURE: &str = "Version=252
UserspaceTimestampMonotonic=1000000
FinishTimestampMonotonic=9000000

Id=multi-user.target
Names=multi-user.target default.target
After=kubelet.service
InactiveExitTimestampMonotonic=4100000
ActiveEnterTimestampMonotonic=4100000

Id=kubelet.service
After=network-online.target
InactiveExitTimestampMonotonic=4000000
ActiveEnterTimestampMonotonic=4050000
ExecMainStartTimestampMonotonic=4010000

Id=network-online.target
After=systemd-networkd-wait-online.service
InactiveExitTimestampMonotonic=3950000
ActiveEnterTimestampMonotonic=3950000

Id=systemd-networkd-wait-online.service
After=
InactiveExitTimestampMonotonic=1450000
ActiveEnterTimestampMonotonic=3950000
";

fn kiln(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kiln")).arg("boot").args(arguments).args(files).output().expect("kiln runs")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn written(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn a_capture_is_a_file_or_a_folder_with_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let (manager, units) = CAPTURE.split_once("\n\n").expect("two parts");
    written(&folder, "manager.txt", manager);
    written(&folder, "units.txt", units);
    let of_file = said(&kiln(&["chain", "--capture"], &[&file]));
    assert_eq!(of_file, said(&kiln(&["chain", "--capture"], &[folder.path()])));
    assert!(of_file.ends_with(
        "multi-user.target @3.100s\n└─kubelet.service @3s +50ms\n  └─network-online.target @2.950s\n    \
         └─systemd-networkd-wait-online.service @450ms +2.500s\n"
    ));
}

#[test]
fn explain_names_the_wait_for_the_network_and_what_it_costs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let text = said(&kiln(&["explain", "--capture"], &[&file]));
    assert!(text.starts_with("kubelet.service started 3s after PID 1; its program was executed at 3.010s\n"), "{text}");
    assert!(text.contains("2.500s  systemd-networkd-wait-online.service took 2.500s until the network was configured"));
    let json: Value =
        serde_json::from_str(&said(&kiln(&["explain", "--output", "json", "--capture"], &[&file]))).expect("json");
    assert_eq!((&json["began"], &json["findings"][0]["kind"]), (&3_000_000.into(), &"waitOnline".into()));
}

#[test]
fn what_if_says_when_kubelet_would_have_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let without = ["what-if", "--without", "systemd-networkd-wait-online.service", "--capture"];
    let text = said(&kiln(&without, &[&file]));
    assert_eq!(text, "kubelet.service started at 3s and would have started at 50ms: 2.950s earlier\n");
    let edge = ["what-if", "--without-edge", "kubelet.service:network-online.target", "--capture"];
    assert!(said(&kiln(&edge, &[&file])).contains("earlier"));
    let unknown = kiln(&["what-if", "--without", "nobody.service", "--capture"], &[&file]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("has no unit `nobody.service`"));
}

#[test]
fn blame_and_time_answer_programs_in_microseconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let json = |verb| -> Value {
        serde_json::from_str(&said(&kiln(&[verb, "--output", "json", "--capture"], &[&file]))).expect("json")
    };
    let blamed = serde_json::json!([
        {"unit": "systemd-networkd-wait-online.service", "time": 2_500_000},
        {"unit": "kubelet.service", "time": 50_000},
    ]);
    assert_eq!(json("blame"), blamed);
    let time = json("time");
    assert_eq!((&time["kernel"], &time["userspace"]), (&1_000_000.into(), &8_000_000.into()));
    assert_eq!((&time["total"], &time["firmware"]), (&9_000_000.into(), &Value::Null));
    assert_eq!((&time["goal"], &time["goalReached"]), (&"multi-user.target".into(), &3_100_000.into()));
    assert!(
        said(&kiln(&["time", "--capture"], &[&file])).starts_with("Startup finished in 1s (kernel) + 8s (userspace)")
    );
}

#[test]
fn a_broken_budget_ends_with_code_1_and_a_kept_one_with_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let kept = written(&folder, "kept.txt", "boot < 10s\nkubelet.service start < 4s\n");
    let broken = written(&folder, "broken.txt", "kubelet.service start < 2s\n");
    let capture = file.to_str().expect("a path");
    assert_eq!(kiln(&["budget", "--capture", capture], &[&kept]).status.code(), Some(0));
    let output = kiln(&["budget", "--capture", capture], &[&broken]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("kubelet.service start"));
    // The capture does not say when it was active: that is no time within the limit.
    let starts = written(&folder, "starts.txt", &CAPTURE.replace("ActiveEnterTimestampMonotonic=4050000\n", ""));
    let unknown = written(&folder, "unknown.txt", "kubelet.service time < 4s\n");
    let output = kiln(&["budget", "--capture", starts.to_str().expect("a path")], &[&unknown]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unknown"), "{output:?}");
    let empty = written(&folder, "empty.txt", "# nothing\n");
    assert_eq!(kiln(&["budget", "--capture", capture], &[&empty]).status.code(), Some(2));
}

#[test]
fn two_boots_are_compared_by_what_they_spend_on_the_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = written(&folder, "slow.txt", CAPTURE);
    let shorter =
        CAPTURE.replace("=3950000", "=1500000").replace("=4000000", "=1600000").replace("=4010000", "=1610000");
    let fast = written(&folder, "fast.txt", &shorter);
    let text = said(&kiln(&["compare"], &[&slow, &fast]));
    assert!(text.starts_with("kubelet.service started at 3s, then at 600ms\n"), "{text}");
    assert!(text.contains("-2.450s"), "{text}");
}

#[test]
fn lint_reads_unit_files_drop_ins_and_wants_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    written(&folder, "kubelet.service", "[Unit]\nAfter=network-online.target gone.service other.service\n");
    written(&folder, "network-online.target", "[Unit]\n");
    written(&folder, "other.service", "[Service]\nExecStart=/bin/true\n");
    std::fs::create_dir_all(folder.path().join("multi-user.target.wants")).expect("a folder");
    std::fs::create_dir_all(folder.path().join("kubelet.service.d")).expect("a folder");
    written(&folder, "multi-user.target.wants/other.service", "");
    written(&folder, "kubelet.service.d/10-late.conf", "[Unit]\nAfter=late.service\n");
    let empty = tempfile::tempdir().expect("a folder");
    let nothing = kiln(&["lint"], &[empty.path()]);
    assert_eq!(nothing.status.code(), Some(2), "a wrong folder is not a clean one");
    let output = kiln(&["lint"], &[folder.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("kubelet.service:2: waits-for-network") && text.contains("gone.service does not exist"));
    assert!(text.contains("10-late.conf:2: after-missing") && !text.contains("other.service"), "{text}");
}

#[test]
fn a_picture_is_drawn_and_bad_input_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = written(&folder, "boot.txt", CAPTURE);
    let picture = folder.path().join("boot.svg");
    said(&kiln(&["plot", "-o", picture.to_str().expect("a path"), "--capture"], &[&file]));
    assert!(std::fs::read_to_string(&picture).expect("the picture").starts_with("<svg"));
    let garbage = written(&folder, "garbage.txt", "no capture at all");
    let output = kiln(&["explain", "--capture"], &[&garbage]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("garbage.txt: the capture names no unit"));
}

#[test]
fn what_is_no_text_and_what_is_not_there_is_refused_with_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary: Vec<u8> = (0..=255u8).cycle().take(64 << 10).collect();
    let file = folder.path().join("boot.bin");
    std::fs::write(&file, &binary).expect("a file");
    for arguments in [&["explain", "--capture"][..], &["plot", "-o", "/dev/null", "--chain"], &["blame", "--capture"]] {
        let output = kiln(arguments, &[&file]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("boot.bin: "), "{arguments:?}");
    }
    // Bytes that are no UTF-8 in a name are no reason to refuse the rest.
    let mut capture = CAPTURE.as_bytes().to_vec();
    capture.extend(b"\nId=\xff\xfe.service\nInactiveExitTimestampMonotonic=2000000\n");
    std::fs::write(&file, &capture).expect("a file");
    assert!(said(&kiln(&["explain", "--capture"], &[&file])).contains("systemd-networkd-wait-online.service took"));
    let half = kiln(&["explain", "--capture"], &[folder.path()]);
    assert_eq!(half.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&half.stderr).contains("manager.txt"));
}

#[test]
fn a_pasted_chain_is_enough_to_be_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let chain =
        "cloud-final.service +11.703s\n└─multi-user.target @33.929s\n  └─cloud-config.service @31.392s +2.499s\n";
    let file = written(&folder, "chain.txt", chain);
    let text = said(&kiln(&["explain", "--unit", "cloud-final.service", "--chain"], &[&file]));
    assert_eq!(text, said(&kiln(&["explain", "--chain"], &[&file])), "the unit that it was printed for");
    assert!(text.contains("cloud-config.service took 2.499s before it"), "{text}");
    assert!(
        said(&kiln(&["chain", "cloud-final.service", "--chain"], &[&file])).contains("cloud-final.service +11.703s")
    );
}
