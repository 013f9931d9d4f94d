//! What `kilnd watch` tells the service manager that started it, and the platform.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use support::documents::document;
use support::program::kilnd_on;
use support::world::{folder, image};

/// As long as a loaded machine may take for one turn. Nothing waits for it when all is well.
const PATIENCE: Duration = Duration::from_mins(1);

/// A watch, what it tells, and whom.
struct Watched {
    child: Child,
    manager: UnixDatagram,
    platform: Arc<Mutex<Vec<String>>>,
    _root: tempfile::TempDir,
}

impl Watched {
    /// Of a node with a first document that has these parts.
    fn new(parts: &Value) -> Self {
        let folder = folder();
        let root = folder.path();
        image(root);
        fs::write(root.join("config.json"), document(1, parts).to_json()).expect("written");
        let manager = UnixDatagram::bind(root.join("manager")).expect("a socket");
        manager.set_read_timeout(Some(PATIENCE)).expect("a time");
        let (url, platform) = platform();
        let kilnd = |args: &[&str]| {
            let mut command = kilnd_on(root);
            command.args(["--imds", "http://127.0.0.1:1", "--wire-server", &url, "--time-scale", "100"]).args(args);
            command
        };
        let config = root.join("config.json").display().to_string();
        let applied = kilnd(&["apply", "--config", &config]).output().expect("kilnd");
        assert!(applied.status.success(), "{applied:?}");
        let mut watch = kilnd(&["watch"]);
        watch.env("NOTIFY_SOCKET", root.join("manager")).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: watch.spawn().expect("kilnd"), manager, platform, _root: folder }
    }

    /// What the service manager hears next.
    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let count = self.manager.recv(&mut buffer).expect("it speaks up");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    /// What the platform heard, each request as its first line and its body.
    fn heard(&self) -> Vec<String> {
        self.platform.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A platform that takes every word, and writes it down.
fn platform() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&heard);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            let mut first = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if first.is_empty() {
                    line.trim().clone_into(&mut first);
                }
                if let Some(("content-length", count)) = line.to_ascii_lowercase().split_once(": ") {
                    length = count.trim().parse().unwrap_or_default();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let said = format!("{first} {}", String::from_utf8_lossy(&body));
            writes.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (url, heard)
}

#[test]
fn a_watch_says_that_it_is_ready_lives_what_is_in_force_and_that_it_ends() {
    let mut watched = Watched::new(&json!({}));
    assert_eq!(watched.next(), "READY=1");
    for _ in 0..3 {
        assert_eq!(watched.next(), "WATCHDOG=1\nSTATUS=generation 1 is in force", "again and again");
    }
    let process = rustix::process::Pid::from_child(&watched.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("sent");
    let last = std::iter::repeat_with(|| watched.next()).find(|said| !said.starts_with("WATCHDOG=1\n"));
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert!(watched.child.wait().expect("ended").success());
}

#[test]
fn a_platform_is_told_that_the_machine_has_started_once_and_only_where_the_document_asks_for_it() {
    let told = Watched::new(&json!({"platform": {"reportReady": true}}));
    while told.heard().is_empty() {
        told.next();
    }
    let silent = Watched::new(&json!({"platform": {"reportReady": false}}));
    // As many turns as the other one needed, and more.
    for watched in [&told, &silent] {
        for _ in 0..10 {
            watched.next();
        }
    }
    assert_eq!(told.heard(), ["POST /provisioning/health HTTP/1.1 {\"state\":\"Ready\"}"]);
    assert_eq!(silent.heard(), Vec::<String>::new());
}
