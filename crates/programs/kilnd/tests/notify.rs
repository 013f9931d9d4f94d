//! The notifications that `kilnd watch` sends to systemd and to the platform.

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

/// The timeout for one notification, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The answer of the wire server to every request.
const GOAL_STATE: &str =
    "<GoalState><Incarnation>1</Incarnation><ContainerId>c</ContainerId><InstanceId>i</InstanceId></GoalState>";

/// A `kilnd watch` process with the receivers of its notifications.
struct Watched {
    child: Child,
    manager: UnixDatagram,
    platform: Arc<Mutex<Vec<String>>>,
    _root: tempfile::TempDir,
}

impl Watched {
    /// Starts `kilnd watch` on a node whose first NodeConfig has these parts.
    fn new(parts: &Value) -> Self {
        Self::with(parts, &[])
    }

    /// The same with more files on the machine.
    fn with(parts: &Value, files: &[(&str, &str)]) -> Self {
        let folder = folder();
        let root = folder.path();
        image(root);
        for (path, content) in files {
            fs::create_dir_all(root.join(path).parent().expect("a parent")).expect("folders");
            fs::write(root.join(path), content).expect("written");
        }
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

    /// Receives the next notification to systemd.
    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let count = self.manager.recv(&mut buffer).expect("a notification");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    /// The requests that the wire server received, each as its request line and body.
    fn platform_requests(&self) -> Vec<String> {
        self.platform.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A wire server that accepts and records every request.
fn platform() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let requests = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&requests);
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
            let request = format!("{first} {}", String::from_utf8_lossy(&body));
            writes.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{GOAL_STATE}",
                GOAL_STATE.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, requests)
}

#[test]
fn watch_notifies_systemd_of_ready_watchdog_status_and_stopping() {
    let mut watched = Watched::new(&json!({}));
    assert_eq!(watched.next(), "READY=1");
    for _ in 0..3 {
        assert_eq!(watched.next(), "WATCHDOG=1\nSTATUS=generation 1 is in force", "the watchdog notification repeats");
    }
    let process = rustix::process::Pid::from_child(&watched.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("sent");
    let last = std::iter::repeat_with(|| watched.next()).find(|message| !message.starts_with("WATCHDOG=1\n"));
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert!(watched.child.wait().expect("ended").success());
}

#[test]
fn ready_report_is_sent_once_and_only_if_no_other_agent_sends_it() {
    let azure = ("dmi/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n");
    let agent = ("etc/systemd/system/multi-user.target.wants/walinuxagent.service", "[Service]\nExecStart=/bin/true\n");
    let unit = ("etc/systemd/system/walinuxagent.service", "[Service]\nExecStart=/bin/true\n");
    let reporting = [
        Watched::new(&json!({"platform": {"reportReady": true}})),
        Watched::with(&json!({}), &[azure]),
        Watched::with(&json!({"platform": {"reportReady": true}}), &[azure, unit, agent]),
    ];
    let silent = [
        Watched::new(&json!({})),
        Watched::with(&json!({"platform": {"reportReady": false}}), &[azure]),
        Watched::with(&json!({}), &[azure, unit, agent]),
    ];
    for watched in &reporting {
        while watched.platform_requests().len() < 2 {
            watched.next();
        }
    }
    // More polls than the others needed to send their reports.
    for watched in reporting.iter().chain(&silent) {
        for _ in 0..10 {
            watched.next();
        }
    }
    for watched in &reporting {
        let requests = watched.platform_requests();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert_eq!(requests[0], "GET /machine/?comp=goalstate HTTP/1.1 ");
        assert!(requests[1].starts_with("POST /machine/?comp=health HTTP/1.1 "), "{requests:?}");
        assert!(requests[1].contains("<State>Ready</State>"), "{requests:?}");
    }
    for watched in &silent {
        assert_eq!(watched.platform_requests(), Vec::<String>::new());
    }
}
