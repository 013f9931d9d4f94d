//! `kiln boot` on captures.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A boot of three seconds in which kubelet.service waits for the network.
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

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn a_capture_is_a_file_or_a_folder_with_two_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let (manager, units) = CAPTURE.split_once("\n\n").expect("two parts");
    write(&folder, "manager.txt", manager);
    write(&folder, "units.txt", units);
    let of_file = stdout(&kiln(&["chain", "--capture"], &[&file]));
    assert_eq!(of_file, stdout(&kiln(&["chain", "--capture"], &[folder.path()])));
    assert!(of_file.ends_with(
        "multi-user.target @3.100s\n└─kubelet.service @3s +50ms\n  └─network-online.target @2.950s\n    \
         └─systemd-networkd-wait-online.service @450ms +2.500s\n"
    ));
}

#[test]
fn explain_reports_the_wait_for_the_network_and_its_cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let text = stdout(&kiln(&["explain", "--capture"], &[&file]));
    assert!(
        text.starts_with("kubelet.service started 3s after PID 1; its main process was executed at 3.010s\n"),
        "{text}"
    );
    assert!(text.contains("2.500s  systemd-networkd-wait-online.service took 2.500s until the network was configured"));
    let json: Value =
        serde_json::from_str(&stdout(&kiln(&["explain", "--output", "json", "--capture"], &[&file]))).expect("json");
    assert_eq!((&json["began"], &json["findings"][0]["kind"]), (&3_000_000.into(), &"waitOnline".into()));
}

#[test]
fn what_if_prints_when_kubelet_would_have_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let without = ["what-if", "--without", "systemd-networkd-wait-online.service", "--capture"];
    let text = stdout(&kiln(&without, &[&file]));
    assert_eq!(text, "kubelet.service started at 3s and would have started at 50ms, 2.950s earlier\n");
    let edge = ["what-if", "--without-edge", "kubelet.service:network-online.target", "--capture"];
    assert!(stdout(&kiln(&edge, &[&file])).contains("earlier"));
    let unknown = kiln(&["what-if", "--without", "unknown.service", "--capture"], &[&file]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("has no unit `unknown.service`"));
}

#[test]
fn json_output_of_blame_and_time_is_in_microseconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let json = |verb| -> Value {
        serde_json::from_str(&stdout(&kiln(&[verb, "--output", "json", "--capture"], &[&file]))).expect("json")
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
        stdout(&kiln(&["time", "--capture"], &[&file])).starts_with("Startup finished in 1s (kernel) + 8s (userspace)")
    );
}

#[test]
fn an_exceeded_budget_ends_with_code_1_and_a_kept_one_with_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let kept = write(&folder, "kept.txt", "boot < 10s\nkubelet.service start < 4s\n");
    let broken = write(&folder, "broken.txt", "kubelet.service start < 2s\n");
    let capture = file.to_str().expect("a path");
    assert_eq!(kiln(&["budget", "--capture", capture], &[&kept]).status.code(), Some(0));
    let output = kiln(&["budget", "--capture", capture], &[&broken]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("kubelet.service start"));
    // A limit that cannot be measured counts as exceeded.
    let starts = write(&folder, "starts.txt", &CAPTURE.replace("ActiveEnterTimestampMonotonic=4050000\n", ""));
    let unknown = write(&folder, "unknown.txt", "kubelet.service time < 4s\n");
    let output = kiln(&["budget", "--capture", starts.to_str().expect("a path")], &[&unknown]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("unknown"), "{output:?}");
    let empty = write(&folder, "empty.txt", "# nothing\n");
    assert_eq!(kiln(&["budget", "--capture", capture], &[&empty]).status.code(), Some(2));
}

#[test]
fn two_boots_are_compared_by_the_time_spent_in_each_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = write(&folder, "slow.txt", CAPTURE);
    let shorter =
        CAPTURE.replace("=3950000", "=1500000").replace("=4000000", "=1600000").replace("=4010000", "=1610000");
    let fast = write(&folder, "fast.txt", &shorter);
    let text = stdout(&kiln(&["compare"], &[&slow, &fast]));
    assert!(text.starts_with("kubelet.service started at 3s in the first boot and at 600ms in the second\n"), "{text}");
    assert!(text.contains("-2.450s"), "{text}");
}

#[test]
fn lint_reads_unit_files_drop_ins_and_wants_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, "kubelet.service", "[Unit]\nAfter=network-online.target gone.service other.service\n");
    write(&folder, "network-online.target", "[Unit]\n");
    write(&folder, "other.service", "[Service]\nExecStart=/bin/true\n");
    std::fs::create_dir_all(folder.path().join("multi-user.target.wants")).expect("a folder");
    std::fs::create_dir_all(folder.path().join("kubelet.service.d")).expect("a folder");
    write(&folder, "multi-user.target.wants/other.service", "");
    write(&folder, "kubelet.service.d/10-late.conf", "[Unit]\nAfter=late.service\n");
    let empty = tempfile::tempdir().expect("a folder");
    let nothing = kiln(&["lint"], &[empty.path()]);
    assert_eq!(nothing.status.code(), Some(2), "an empty folder is an error");
    let output = kiln(&["lint"], &[folder.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("kubelet.service:2: waits-for-network") && text.contains("gone.service does not exist"));
    assert!(text.contains("10-late.conf:2: after-missing") && !text.contains("other.service"), "{text}");
}

#[test]
fn lint_of_a_file_knows_the_other_units_of_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "kubelet.service", "[Unit]\nAfter=gone.service other.service\nWants=other.service\n");
    write(&folder, "other.service", "[Unit]\nAfter=also-gone.service\n");
    std::fs::create_dir_all(folder.path().join("kubelet.service.d")).expect("a folder");
    write(&folder, "kubelet.service.d/10-late.conf", "[Unit]\nAfter=late.service\n");
    let output = kiln(&["lint"], &[&file]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("gone.service does not exist") && text.contains("10-late.conf:2: after-missing"), "{text}");
    let both = kiln(&["lint"], &[&file, folder.path()]);
    assert_eq!(String::from_utf8_lossy(&both.stdout).lines().count(), 3, "the folder adds other.service");
}

#[test]
fn plot_writes_a_picture_and_bad_input_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(&folder, "boot.txt", CAPTURE);
    let picture = folder.path().join("boot.svg");
    stdout(&kiln(&["plot", "-o", picture.to_str().expect("a path"), "--capture"], &[&file]));
    assert!(std::fs::read_to_string(&picture).expect("the picture").starts_with("<svg"));
    let garbage = write(&folder, "garbage.txt", "not a capture");
    let output = kiln(&["explain", "--capture"], &[&garbage]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("garbage.txt: the capture has no units"));
}

#[test]
fn binary_and_missing_files_are_errors_that_name_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary: Vec<u8> = (0..=255u8).cycle().take(64 << 10).collect();
    let file = folder.path().join("boot.bin");
    std::fs::write(&file, &binary).expect("a file");
    for arguments in [&["explain", "--capture"][..], &["plot", "-o", "/dev/null", "--chain"], &["blame", "--capture"]] {
        let output = kiln(arguments, &[&file]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("boot.bin: "), "{arguments:?}");
    }
    // Invalid UTF-8 in one name does not affect the other units.
    let mut capture = CAPTURE.as_bytes().to_vec();
    capture.extend(b"\nId=\xff\xfe.service\nInactiveExitTimestampMonotonic=2000000\n");
    std::fs::write(&file, &capture).expect("a file");
    assert!(stdout(&kiln(&["explain", "--capture"], &[&file])).contains("systemd-networkd-wait-online.service took"));
    let half = kiln(&["explain", "--capture"], &[folder.path()]);
    assert_eq!(half.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&half.stderr).contains("manager.txt"));
}

#[test]
fn a_pasted_chain_can_be_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let chain =
        "cloud-final.service +11.703s\n└─multi-user.target @33.929s\n  └─cloud-config.service @31.392s +2.499s\n";
    let file = write(&folder, "chain.txt", chain);
    let text = stdout(&kiln(&["explain", "cloud-final.service", "--chain"], &[&file]));
    assert_eq!(text, stdout(&kiln(&["explain", "--chain"], &[&file])), "the default is the first unit of the chain");
    assert!(text.contains("cloud-config.service took 2.499s to start"), "{text}");
    assert!(
        stdout(&kiln(&["chain", "cloud-final.service", "--chain"], &[&file])).contains("cloud-final.service +11.703s")
    );
}
