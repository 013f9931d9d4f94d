//! One control plane for several processes, and the program that runs named ones.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use control_plane::shared;
use test_deps::{Cache, KUBE_PROGRAMS, KubePrograms, SESSION_LOCK};

/// Set in a child process that acts as a test: it prints the folder of its control plane and waits to be killed.
const CHILD: &str = "KILN_TEST_CHILD";

/// A child process that uses the shared control plane of a separate cache.
struct ChildProcess {
    child: Child,
    /// Kept open: writing to a closed pipe would fail.
    _output: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl ChildProcess {
    fn spawn(cache: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes_share_one_control_plane_until_the_last_one_ends", "--nocapture"])
            .env(CHILD, "1")
            .env("XDG_CACHE_HOME", cache)
            .env("KUBEBUILDER_ASSETS", assets(cache))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn ready(mut child: Child) -> Self {
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let lines = output.by_ref().lines().map_while(Result::ok);
        let mut folders = lines.filter_map(|line| line.split_once("folder=").map(|(_, path)| PathBuf::from(path)));
        let folder = folders.next().expect("a control plane");
        Self { child, _output: output, folder }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn program(name: &str) -> PathBuf {
    let program = KubePrograms::of_user(Cache::of_user().unwrap()).find(name);
    program.unwrap_or_else(|missing| panic!("{missing}"))
}

/// A folder with links to all programs, since they come from two dependencies and the separate cache has none.
fn assets(cache: &Path) -> PathBuf {
    let folder = cache.join("assets");
    std::fs::create_dir_all(&folder).unwrap();
    for name in KUBE_PROGRAMS {
        let link = folder.join(name);
        if !link.exists() {
            symlink(program(name), link).unwrap();
        }
    }
    folder
}

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

fn is_served(folder: &Path) -> bool {
    let kubeconfig = folder.join("admin.kubeconfig");
    let output = Command::new(program("kubectl"))
        .args(["get", "--raw", "/readyz", "--kubeconfig"])
        .arg(kubeconfig)
        .env("KUBECACHEDIR", folder)
        .output();
    output.unwrap().stdout == b"ok"
}

#[test]
fn processes_share_one_control_plane_until_the_last_one_ends() {
    if std::env::var_os(CHILD).is_some() {
        println!("folder={}", shared().folder().display());
        // Killed by the parent.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let session = cache.path().join("kiln/run").join(SESSION_LOCK);
    std::fs::create_dir_all(session.parent().unwrap()).unwrap();
    let session = OpenOptions::new().create(true).append(true).open(session).unwrap();
    session.lock_shared().unwrap();
    let (first, second) = (ChildProcess::spawn(cache.path()), ChildProcess::spawn(cache.path()));
    let (first, second) = (ChildProcess::ready(first), ChildProcess::ready(second));
    let folder = first.folder.clone();
    assert_eq!(second.folder, folder);

    // Either of the two started it.
    first.kill();
    assert!(is_served(&folder));

    second.kill();
    let third = ChildProcess::ready(ChildProcess::spawn(cache.path()));
    assert_eq!(third.folder, folder, "the session kept it without users");

    drop(session);
    third.kill();
    eventually("it to stop", || !folder.exists());
    let fourth = ChildProcess::ready(ChildProcess::spawn(cache.path()));
    assert_ne!(fourth.folder, folder);
    let folder = fourth.folder.clone();
    fourth.kill();
    eventually("the last one to stop", || !folder.exists());
}

#[test]
fn kube_program_prints_the_kubeconfig_and_stops_what_it_started() {
    let state = tempfile::tempdir().unwrap();
    let kube = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube"));
        let output = command.args(arguments).env("XDG_STATE_HOME", state.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = kube(&["up", "--name", "mine", "--scheduler"]);
    assert_eq!(code, Some(0), "{stderr}");
    let kubeconfig = PathBuf::from(stdout.trim().strip_prefix("export KUBECONFIG=").expect("an export"));
    assert!(is_served(kubeconfig.parent().unwrap()));
    assert_eq!(kube(&["list"]), (Some(0), "mine\n".to_owned(), String::new()));
    let (code, _, stderr) = kube(&["down"]);
    assert_eq!((code, stderr.as_str()), (Some(1), "error: no control plane `default`; running: mine\n"));
    let (code, _, stderr) = kube(&["up", "--nme"]);
    assert_eq!(code, Some(2));
    assert!(stderr.starts_with("error: unknown argument `--nme`"), "{stderr}");

    assert_eq!(kube(&["down", "--name", "mine"]), (Some(0), String::new(), String::new()));
    assert!(!kubeconfig.exists());
}
