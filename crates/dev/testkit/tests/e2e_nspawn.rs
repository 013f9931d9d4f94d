//! Machines with a real systemd, and their complete removal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::nspawn::{Blueprint, Response, Server};

const RECORD: &str = "[Unit]\nDescription=records its starts\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
    ExecStart=/bin/sh -c 'echo started >>/var/lib/record'\n";

fn recorder(name: &str) -> Blueprint {
    Blueprint::new(name)
        .file("/etc/systemd/system/record.service", RECORD)
        .wanted_by("multi-user.target", "record.service")
}

#[test]
fn machine_runs_enabled_units_and_keeps_its_disk_over_restart_and_power_cut() {
    let mut machine = recorder("restarts").boot();
    assert_eq!(machine.settled(), "running", "{}", machine.journal(None));
    assert_eq!(machine.read("/var/lib/record").as_deref(), Some("started\n"));
    machine.write("/run/volatile", b"", 0o644);
    machine.reboot();
    machine.wait_for("record.service", "active");
    assert_eq!(machine.read("/var/lib/record").as_deref(), Some("started\nstarted\n"));
    assert!(!machine.exists("/run/volatile"));
    machine.cut_power();
    assert_eq!(
        machine.read("/var/lib/record").map(|text| text.lines().count()),
        Some(2),
        "read while the machine is off"
    );
    machine.boot();
    machine.wait_for("record.service", "active");
    assert_eq!(machine.read("/var/lib/record").map(|text| text.lines().count()), Some(3));
    machine.power_off();
    assert_eq!(machine.leader(), None);
}

#[test]
fn only_the_test_answers_in_the_network_of_a_machine() {
    let machine = Blueprint::new("cloud").build();
    let address: SocketAddr = (Ipv4Addr::new(169, 254, 169, 254), 80).into();
    let server = Server::start(machine.network().listen(address), |_| Response::text("from the test"));
    let mut machine = machine;
    machine.boot();
    let answer = machine.run(&["curl", "--silent", "--max-time", "5", "http://169.254.169.254/x"]);
    assert_eq!(answer.success().stdout, "from the test");
    assert_eq!(server.seen().len(), 1);
    assert_eq!(machine.shell("ls /sys/class/net").stdout, "lo\n");
    assert_eq!(machine.shell("ip -4 route show default").stdout, "");
}

#[test]
fn copy_of_a_disk_has_changes_and_removals_of_the_donor() {
    let donor = recorder("donor").boot();
    donor.wait_for("record.service", "active");
    donor.shell("rm /etc/netconfig; echo donor >/etc/hostname");
    let clone = Blueprint::new("clone").disk_of(&donor).build();
    assert_eq!(clone.read("/etc/hostname").as_deref(), Some("donor\n"));
    assert!(!clone.exists("/etc/netconfig") && Blueprint::new("fresh").build().exists("/etc/netconfig"));
    assert_eq!(clone.read("/var/lib/record").as_deref(), Some("started\n"));
}

#[test]
fn pretended_setting_does_not_change_on_the_host() {
    const PATH: &str = "/proc/sys/vm/swappiness";
    let before = fs::read_to_string(PATH).unwrap();
    let machine = Blueprint::new("pretend").pretend(&[PATH]).boot();
    machine.wait_for("testkit-pretend.service", "active");
    machine.shell(&format!("echo 7 >{PATH}"));
    assert_eq!(machine.read(PATH).as_deref(), Some("7\n"));
    assert_eq!(fs::read_to_string(PATH).unwrap(), before);
    assert_ne!(before, "7\n");
}

/// The processes, mounts and control groups of a machine on the host.
fn traces(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if entry.path().join("exe").exists() && String::from_utf8_lossy(&line).contains(name) {
            found.push(format!("process {}", entry.file_name().display()));
        }
    }
    found.extend(
        fs::read_to_string("/proc/mounts").unwrap().lines().filter(|line| line.contains(name)).map(str::to_owned),
    );
    let mut groups = Command::new("find");
    groups.args(["/sys/fs/cgroup", "-maxdepth", "2", "-name", &format!("*{name}*")]);
    found.extend(testkit::run(groups, Duration::from_mins(1)).stdout.lines().map(str::to_owned));
    let mut run = Command::new("find");
    run.args(["/run/systemd", "-name", &format!("*{name}*")]);
    found.extend(testkit::run(run, Duration::from_mins(1)).stdout.lines().map(str::to_owned));
    found
}

fn assert_removed(name: &str) {
    let mut left = Vec::new();
    for _ in 0..600 {
        left = traces(name);
        if left.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("left of {name}: {left:?}");
}

#[test]
fn dropped_machine_is_removed_completely() {
    let machine = Blueprint::new("dropped").boot();
    let name = machine.name().to_owned();
    assert!(traces(&name).len() > 2, "{:?}", traces(&name));
    drop(machine);
    assert_eq!(traces(&name), Vec::<String>::new());
}

/// Not a test: the next test runs it in a process that it kills.
#[test]
fn machine_of_a_killed_test() {
    if std::env::var_os("KILN_NSPAWN_VICTIM").is_none() {
        return;
    }
    let machine = Blueprint::new("victim").boot();
    std::io::stdout().write_all(format!("\nname={}\n", machine.name()).as_bytes()).unwrap();
    std::thread::sleep(Duration::from_mins(2));
}

#[test]
fn machine_of_a_killed_test_is_removed_completely() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "machine_of_a_killed_test", "--nocapture", "--test-threads=1"])
        .env("KILN_NSPAWN_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = victim.stdout.take().unwrap();
    let mut text = String::new();
    let name = loop {
        let mut bytes = [0; 256];
        let count = output.read(&mut bytes).unwrap();
        assert!(count > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if let Some((_, rest)) = text.split_once("name=").filter(|(_, rest)| rest.contains('\n')) {
            break rest.lines().next().unwrap().to_owned();
        }
    };
    assert!(traces(&name).len() > 2);
    victim.kill().and_then(|()| victim.wait()).unwrap();
    assert_removed(&name);
}

#[test]
#[should_panic(expected = "did not boot")]
fn machine_that_does_not_boot_fails_the_test() {
    let broken = Blueprint::new("broken").executable("/usr/lib/systemd/systemd", "#!/bin/false\n");
    broken.boot();
}
