//! Control planes that a test starts itself: concurrent, restarted, and cleaned up.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use control_plane::{Component, ControlPlane, NamedPlanes, Options};

/// Waits for another process; after a minute the test fails.
#[track_caller]
fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if check() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("timed out waiting for {what}");
}

fn is_alive(id: u32) -> bool {
    // A process that is not reaped yet has no command line.
    std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// All processes whose command line contains this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let lines = ids.filter(|id| *id != std::process::id()).filter_map(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        Some(format!("{id} {}", String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    lines.filter(|line| line.contains(&folder)).collect()
}

#[test]
fn two_control_planes_run_concurrently_and_leave_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let options = Options::bare().in_root(root.path());
    let (one, two) = thread::scope(|scope| {
        let start = || ControlPlane::start(&options).unwrap();
        let (one, two) = (scope.spawn(start), scope.spawn(start));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_ne!(one.address(), two.address());
    one.run_kubectl(&["create", "namespace", "only-here"]).unwrap();
    assert!(two.run_kubectl(&["get", "namespace", "only-here"]).unwrap_err().to_string().contains("not found"));
    let foreign = two.run_kubectl_as(one.kubeconfig(), &["get", "namespace", "only-here", "-o", "name"], "");
    assert_eq!(foreign.unwrap(), "namespace/only-here\n");

    drop(one);
    assert_eq!(two.run_kubectl(&["get", "--raw", "/readyz"]).unwrap(), "ok");
    drop(two);
    assert_eq!(processes_of(root.path()), [""; 0]);
    assert!(
        std::fs::read_dir(root.path()).unwrap().flatten().all(|entry| entry.path().is_file()),
        "only lock files remain"
    );
}

#[test]
fn restarted_servers_keep_their_ports_and_data() {
    let root = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(&Options::bare().in_root(root.path())).unwrap();
    let (address, first) = (plane.address(), plane.process(Component::ApiServer).unwrap());
    plane.run_kubectl(&["create", "namespace", "kept"]).unwrap();

    plane.stop_api_server().unwrap();
    assert!(!is_alive(first));
    assert!(std::net::TcpStream::connect(address).is_err());
    plane.restart_api_server().unwrap();
    assert_ne!(plane.process(Component::ApiServer), Some(first));

    let etcd = plane.process(Component::Etcd).unwrap();
    plane.kill_etcd().unwrap();
    assert!(!is_alive(etcd));
    plane.restart_etcd().unwrap();
    assert_eq!(plane.run_kubectl(&["get", "namespace", "kept", "-o", "name"]).unwrap(), "namespace/kept\n");
    assert_eq!(plane.address(), address);
}

#[test]
fn start_failure_is_reported_with_the_end_of_the_log() {
    let root = tempfile::tempdir().unwrap();
    let mut options = Options::bare().in_root(root.path());
    options.api_server_arguments.push("--no-such-flag".to_owned());
    let message = ControlPlane::start(&options).unwrap_err().to_string();
    assert!(message.contains("kube-apiserver ended") && message.contains("unknown flag: --no-such-flag"), "{message}");
    assert_eq!(processes_of(root.path()), [""; 0]);
}

/// Runs in a child process, which is killed: see below.
#[test]
fn nothing_remains_when_the_parent_is_killed() {
    const ROOT: &str = "KILN_TEST_KILLED_ROOT";
    if let Some(root) = std::env::var_os(ROOT) {
        let plane = ControlPlane::start(&Options::bare().in_root(root)).unwrap();
        std::fs::write(plane.folder().join("started"), "").unwrap();
        loop {
            thread::park();
        }
    }
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nothing_remains_when_the_parent_is_killed"])
        .env(ROOT, root.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let folders = || std::fs::read_dir(root.path()).unwrap().flatten().map(|e| e.path()).filter(|p| p.is_dir());
    eventually("the child's control plane", || folders().any(|folder| folder.join("started").exists()));
    assert!(processes_of(root.path()).iter().any(|line| line.contains("kube-apiserver")));

    child.kill().unwrap();
    child.wait().unwrap();
    eventually("all processes to end", || processes_of(root.path()).is_empty() && folders().next().is_none());
}

#[test]
fn remains_of_killed_supervisors_are_removed_by_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let options = Options::bare().in_root(root.path());
    let plane = ControlPlane::start(&options).unwrap();
    let folder = plane.folder().to_owned();
    let servers = [Component::Etcd, Component::ApiServer].map(|component| plane.process(component).unwrap());
    for line in processes_of(&folder).iter().filter(|line| line.contains("sh -c")) {
        let id = line.split_whitespace().next().unwrap();
        assert!(Command::new("kill").args(["-KILL", id]).status().unwrap().success());
    }
    eventually("servers to die with their supervisor", || servers.iter().all(|id| !is_alive(*id)));
    drop(plane);
    assert!(folder.exists());
    let next = ControlPlane::start(&options).unwrap();
    assert!(!folder.exists());
    drop(next);
}

#[test]
fn named_control_plane_runs_until_it_is_stopped() {
    let root = tempfile::tempdir().unwrap();
    let planes = NamedPlanes::at(root.path()).unwrap();
    let kubeconfig = planes.up("a", &Options::bare()).unwrap();
    assert_eq!(planes.up("a", &Options::bare()).unwrap(), kubeconfig, "a running one is not started again");
    assert_eq!(planes.names().unwrap(), ["a"]);
    let holder = std::fs::read_to_string(root.path().join("a/holder")).unwrap();
    assert!(is_alive(holder.parse().unwrap()));
    let message = planes.down("b").unwrap_err().to_string();
    assert_eq!(message, "no control plane `b`; running: a");
    assert!(planes.up("../a", &Options::bare()).unwrap_err().to_string().contains("invalid name"));

    planes.down("a").unwrap();
    assert_eq!(processes_of(root.path()), [""; 0]);
    assert!(planes.names().unwrap().is_empty());
}

#[test]
fn named_control_plane_is_stopped_even_if_its_processes_were_killed() {
    let root = tempfile::tempdir().unwrap();
    let planes = NamedPlanes::at(root.path()).unwrap();
    planes.up("a", &Options::bare()).unwrap();
    for line in processes_of(root.path()).iter().filter(|line| line.contains("sh -c") || line.contains("tail")) {
        // Some end because another one was killed.
        let _ = Command::new("kill").args(["-KILL", line.split_whitespace().next().unwrap()]).status();
    }
    if root.path().join("a").exists() {
        planes.down("a").unwrap();
    }
    eventually("all processes to end", || processes_of(root.path()).is_empty());
    assert!(planes.names().unwrap().is_empty());
}
