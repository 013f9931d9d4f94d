//! A node whose root is a folder: a Node object on a real API server, an instance of the embedded Azure, a fake kubelet, and `kilnd watch`
//! as a process.

#![expect(dead_code, reason = "each test uses a part of this module")]

mod azure;
pub(crate) mod fleet;
pub(crate) mod operator;

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use control_plane::{ControlPlane, Identity, shared, unique};
use kilnd::apiserver::{Client, Condition, ConditionStatus, Node, Target};
use serde_json::{Value, json};

pub(crate) use azure::azure;

use crate::support::program::kilnd;

/// Turns minutes into seconds, and still leaves time for a request over loopback between two polls.
const SCALE: &str = "20";
/// The timeout of each wait, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A node under `kilnd watch`.
pub(crate) struct Watched {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) name: String,
    pub(crate) instance: u32,
    /// The API server in documents.
    server: String,
    root: tempfile::TempDir,
    pub(crate) client: Arc<Client>,
    kubelet: Kubelet,
    watch: Option<Child>,
}

/// A fake kubelet. It serves `/healthz`, and while it is healthy it updates the Ready condition.
struct Kubelet {
    port: u16,
    healthy: Arc<AtomicBool>,
    heartbeats: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Watched {
    /// Creates a node for this instance, without a generation in force.
    pub(crate) fn new(prefix: &str, instance: u32) -> Self {
        Self::on(reachable(), prefix, instance)
    }

    /// The same in the cluster of another control plane.
    pub(crate) fn on(plane: &'static ControlPlane, prefix: &str, instance: u32) -> Self {
        let name = unique(prefix);
        plane.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).expect("a node");
        let root = tempfile::tempdir().expect("a folder");
        let certificate = root.path().join("var/lib/kubelet/pki/kubelet-client-current.pem");
        let credential = plane.issue(&Identity::node(&name)).expect("a certificate");
        write(&certificate, &(credential.certificate + &credential.key));
        write(&root.path().join("etc/hostname"), &format!("{name}\n"));
        write(&root.path().join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n");
        write(&root.path().join("etc/group"), "root:x:0:\n");
        write(&root.path().join("dmi/product_uuid"), &azure().instance(instance).vm_id);
        let server = Target {
            server: plane.server(),
            authority: plane.authority().to_owned(),
            certificates: vec![certificate],
            proxy: None,
        };
        let client = Arc::new(Client::new(server, &name));
        let kubelet = Kubelet::start(Arc::clone(&client));
        Self { plane, name, instance, server: plane.server(), root, client, kubelet, watch: None }
    }

    /// A NodeConfig with which this node is healthy.
    pub(crate) fn document(&self, generation: u64) -> Value {
        json!({
            "apiVersion": "node.kiln.dev/v1alpha1",
            "kind": "NodeConfig",
            "metadata": {"name": "pool", "generation": generation},
            "spec": {
                "cluster": {"endpoint": self.server, "certificateAuthority": self.plane.authority()},
                "kubelet": {"version": "1.34.4", "configuration": {"healthzPort": self.kubelet.port}},
                // The control plane is shared by all tests, but instance names of the embedded Azure are not unique.
                "platform": {"hostName": self.name},
                "health": {"withinSeconds": 60},
                "update": {"pollSeconds": 5},
            },
        })
    }

    /// Runs `kilnd apply` with a document.
    #[track_caller]
    pub(crate) fn apply(&self, document: &Value) {
        let file = self.root.path().join("document.json");
        write(&file, &document.to_string());
        let output = self.kilnd().args(["apply", "--config"]).arg(&file).output().expect("kilnd");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Sets the instance's user data through ARM.
    pub(crate) fn set_user_data(&self, document: &Value) {
        azure().set_user_data(self.instance, document.to_string().as_bytes());
    }

    /// Starts `kilnd watch`.
    pub(crate) fn watch(&mut self) {
        let journal = fs::File::create(self.journal_file()).expect("a journal");
        let child = self.kilnd().arg("watch").stderr(journal).stdout(Stdio::null()).spawn().expect("kilnd");
        self.watch = Some(child);
    }

    /// Sends SIGHUP to `kilnd watch`.
    pub(crate) fn hangup(&self) {
        let child = self.watch.as_ref().expect("a running watch");
        let process = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("sent");
    }

    /// Terminates `kilnd watch` and returns whether it ended within this time. Otherwise it is killed.
    pub(crate) fn stop_within(&mut self, limit: Duration) -> bool {
        const PAUSE: Duration = Duration::from_millis(50);
        let mut child = self.watch.take().expect("a running watch");
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("sent");
        for _ in 0..limit.as_millis() / PAUSE.as_millis() {
            if child.try_wait().expect("a child").is_some() {
                return true;
            }
            thread::sleep(PAUSE);
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    /// Terminates `kilnd watch` and waits for its end.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.watch.take() {
            let process = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }

    /// Simulates a reboot: clears `/run`, sets a new boot id, and runs `kilnd boot` and `kilnd watch`.
    pub(crate) fn restart(&mut self, boot: &str) {
        self.stop();
        let _ = fs::remove_dir_all(self.root.path().join("run"));
        write(&self.root.path().join("proc/sys/kernel/random/boot_id"), boot);
        let boot = self.kilnd().arg("boot").output().expect("kilnd");
        assert!(boot.status.success(), "{}", String::from_utf8_lossy(&boot.stderr));
        self.watch();
    }

    pub(crate) fn set_kernel_command_line(&self, line: &str) {
        write(&self.root.path().join("proc/cmdline"), &format!("{line}\n"));
    }

    /// Sets the response of the fake kubelet's `/healthz`.
    pub(crate) fn set_kubelet_healthy(&self, healthy: bool) {
        self.kubelet.healthy.store(healthy, Ordering::SeqCst);
    }

    /// Whether the fake kubelet updates the Ready condition while it is healthy.
    pub(crate) fn set_kubelet_heartbeats(&self, sent: bool) {
        self.kubelet.heartbeats.store(sent, Ordering::SeqCst);
    }

    /// The output of `kilnd status`.
    pub(crate) fn status(&self) -> String {
        String::from_utf8(self.kilnd().arg("status").output().expect("kilnd").stdout).expect("text")
    }

    /// Writes a file of the node.
    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.root.path().join(path), text);
    }

    fn kilnd(&self) -> Command {
        let mut command = kilnd();
        let root = self.root.path();
        let instance = azure().instance(self.instance);
        let (imds, wire) = (azure().imds(&instance), azure().wire(&instance));
        command
            .arg("--root")
            .arg(root)
            .args(["--imds", &imds, "--wire-server", &wire, "--time-scale", SCALE])
            .arg("--dmi")
            .arg(root.join("dmi"));
        command
    }

    /// The Node object. Read by the client instead of kubectl, because it is polled often.
    pub(crate) fn object(&self) -> Node {
        self.client.node().expect("the node")
    }

    /// Status, reason and message of the `KilnConfigured` condition.
    pub(crate) fn condition(&self) -> (ConditionStatus, String, String) {
        let condition = self.object().condition("KilnConfigured").cloned().unwrap_or_default();
        (condition.status, condition.reason, condition.message)
    }

    /// An annotation of the Node object, or an empty string.
    pub(crate) fn annotation(&self, name: &str) -> String {
        self.object().annotations.remove(name).unwrap_or_default()
    }

    pub(crate) fn label(&self, name: &str) -> Option<String> {
        self.object().labels.remove(name)
    }

    /// Waits until the Node object reports this generation as committed.
    #[track_caller]
    pub(crate) fn wait_committed(&self, number: u64) {
        self.wait(&format!("generation {number} is committed"), |node| {
            node.annotation("kiln.dev/node-config").starts_with(&format!("{number} "))
                && node.condition().1 == "Committed"
        });
    }

    /// Polls until the predicate is true.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        const PAUSE: Duration = Duration::from_millis(150);
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if is_true(self) {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("timeout: {what}\n{:?}\n{}", self.condition(), self.journal());
    }

    /// Sets the annotation with which the cluster allows a document.
    #[track_caller]
    pub(crate) fn allow(&self, value: &str) {
        let line = format!("kiln.dev/node-config-allow={value}");
        self.kubectl(&["annotate", "--overwrite", "node", &self.name, &line]);
    }

    /// Waits until kilnd has polled the user data so many more times after it has read the Node object. A change of the poll annotation
    /// makes it do both.
    #[track_caller]
    pub(crate) fn wait_for_syncs(&self, times: u32) {
        for time in 0..times {
            let before = self.journal().matches("requested a poll").count();
            let line = format!("kiln.dev/node-config-check={time}");
            self.kubectl(&["annotate", "--overwrite", "node", &self.name, &line]);
            self.wait("kilnd polls", |node| node.journal().matches("requested a poll").count() > before);
        }
    }

    /// Sets the Ready condition to False.
    pub(crate) fn set_unready(&self) {
        let unready = Condition::new("Ready", ConditionStatus::False, "Test", "");
        self.client.set_condition(&unready, &self.object(), "2030-01-01T00:00:00Z").expect("set");
    }

    /// What `kilnd watch` has recorded about the trial.
    pub(crate) fn trial_start(&self) -> Value {
        let text = fs::read_to_string(self.root.path().join("run/kiln/trial.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Puts a relay between kilnd and the API server, for documents from now on.
    pub(crate) fn relay(&mut self) -> Relay {
        let relay = Relay::start(self.plane.address());
        self.server = format!("https://127.0.0.1:{}", relay.port);
        relay
    }

    /// Runs `kubectl` as a cluster administrator.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) {
        self.plane.run_kubectl(arguments).expect("kubectl");
    }

    /// A file of the generation in force, as JSON.
    pub(crate) fn current(&self, file: &str) -> Value {
        let link = fs::read_link(self.root.path().join("etc/kiln/current")).expect("a link");
        let folder = self.root.path().join("etc/kiln/generations").join(link.file_name().expect("a name"));
        serde_json::from_slice(&fs::read(folder.join(file)).expect("a file")).expect("json")
    }

    /// Reason and message of each event about the node.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let selector = format!("involvedObject.kind=Node,involvedObject.name={}", self.name);
        let all = self.plane.get(&["events", "-n", "default", "--field-selector", &selector]).expect("events");
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        all["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|event| (text(event, "reason"), text(event, "message")))
            .collect()
    }

    /// The stderr of `kilnd watch`.
    pub(crate) fn journal(&self) -> String {
        fs::read_to_string(self.journal_file()).unwrap_or_default()
    }

    /// Everything that users other than root can read: the journal, the status, the Node object and its events.
    pub(crate) fn everything_visible(&self) -> String {
        let status = fs::read_to_string(self.root.path().join("run/kiln/status.json")).unwrap_or_default();
        let object = self.plane.run_kubectl(&["get", "node", &self.name, "-o", "json"]).expect("the node");
        format!("{}\n{status}\n{object}\n{:?}", self.journal(), self.events())
    }

    fn journal_file(&self) -> PathBuf {
        self.root.path().join("journal")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop();
        self.kubelet.ended.store(true, Ordering::SeqCst);
        let _ = self.plane.run_kubectl(&["delete", "node", &self.name, "--wait=false"]);
    }
}

/// The shared API server, reachable from the private network of kilnd.
pub(crate) fn reachable() -> &'static ControlPlane {
    static PLANE: OnceLock<&ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let plane = shared();
        testkit::private().forward(plane.address());
        plane
    })
}

impl Kubelet {
    fn start(client: Arc<Client>) -> Self {
        static BEAT: AtomicU64 = AtomicU64::new(1_800_000_000);
        let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
        let port = listener.local_addr().expect("bound").port();
        let (healthy, ended) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let responds = Arc::clone(&healthy);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let status = if responds.load(Ordering::SeqCst) { "200 OK" } else { "500 Unhealthy" };
                let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        let heartbeats = Arc::new(AtomicBool::new(true));
        let (is_healthy, beats, over) = (Arc::clone(&healthy), Arc::clone(&heartbeats), Arc::clone(&ended));
        thread::spawn(move || {
            let ready = Condition::new("Ready", ConditionStatus::True, "KubeletReady", "");
            while !over.load(Ordering::SeqCst) {
                if is_healthy.load(Ordering::SeqCst)
                    && beats.load(Ordering::SeqCst)
                    && let Ok(node) = client.node()
                {
                    let beat = BEAT.fetch_add(1, Ordering::SeqCst);
                    let _ = client.set_condition(&ready, &node, &kilnd::os::clock::rfc3339(Duration::from_secs(beat)));
                }
                thread::sleep(Duration::from_millis(400));
            }
        });
        Self { port, healthy, heartbeats, ended }
    }
}

/// The hash of a document.
pub(crate) fn hash(document: &Value) -> String {
    kiln_node_config::NodeConfig::parse(document.to_string().as_bytes()).expect("a document").hash()
}

/// A relay to the API server in the private network of kilnd. While it is closed it resets connections.
pub(crate) struct Relay {
    port: u16,
    open: Arc<AtomicBool>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
        let port = listener.local_addr().expect("bound").port();
        let open = Arc::new(AtomicBool::new(true));
        let is_open = Arc::clone(&open);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if !is_open.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(server) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let is_open = Arc::clone(&is_open);
                    thread::spawn(move || copy(from, to, &is_open));
                }
            }
        });
        Self { port, open }
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }
}

/// Copies until one side ends or the relay is closed.
fn copy(mut from: TcpStream, mut to: TcpStream, is_open: &AtomicBool) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
    let mut bytes = [0; 16 << 10];
    while is_open.load(Ordering::SeqCst) {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) if to.write_all(&bytes[..length]).is_err() => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}
