//! A simulated environment in its own process, and `kiln` configured for it.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Finished, Kiln, SimProcess};
use tokio::runtime::Runtime;

/// The pool of the environment.
pub(crate) const POOL: &str = "k8s-agentpool1-26100436-vmss";

/// The start of the tests' clocks, unless a test sets another.
pub(crate) const NOW: &str = "2026-11-16T01:00:00Z";

/// A run takes seconds, even with a debug build on a busy machine. A command that takes longer than this hangs.
const DEADLINE: Duration = Duration::from_mins(4);

/// The file with the protected settings of the pool's script, which commands get unless they have other ones.
const SETTINGS: &str = "settings.json";

/// The command of the script.
pub(crate) const COMMAND: &str = "run the secret script";

/// A small pool that starts quickly.
pub(crate) const SMALL: &str = "
pools:
- name: k8s-agentpool1-26100436-vmss
  capacity: 3
  customData: |
    #cloud-config
    runcmd: [join the cluster]
  extensions: [{name: vmssCSE, publisher: Microsoft.Azure.Extensions, type: CustomScript}]
  updates: {kernel: 5.4.0-1036-azure, packages: {linux-azure: 5.4.0.1036.20, curl: 7.58.0-2ubuntu3.12}}
  instances: {0: {patched: true}}
";

/// A running environment. Dropping it ends its process and deletes its files.
pub(crate) struct World {
    pub(crate) sim: SimProcess,
    variables: BTreeMap<String, String>,
    runtime: Runtime,
    client: kube::Client,
    folder: TempDir,
}

pub(crate) fn kiln() -> Kiln {
    Kiln::at(env!("CARGO_BIN_EXE_kiln"))
}

impl World {
    /// An environment whose operations end immediately.
    #[track_caller]
    pub(crate) fn instant(world: &str) -> Self {
        Self::start(world, "", "instant")
    }

    /// An environment with a fault plan and a speed.
    #[track_caller]
    pub(crate) fn start(world: &str, faults: &str, speed: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let mut arguments = vec!["--speed".to_owned(), speed.to_owned()];
        for (option, text) in [("--world", world), ("--faults", faults)] {
            if !text.is_empty() {
                let path = folder.path().join(format!("{}.yaml", option.trim_start_matches('-')));
                std::fs::write(&path, text).expect("written");
                arguments.extend([option.to_owned(), path.display().to_string()]);
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let sim = kiln().sim(&arguments);
        let ready = folder.path().join("ready.json");
        std::fs::write(&ready, sim.ready().to_string()).expect("written");
        let variables =
            kiln().run(&["sim", "env", "--from", ready.to_str().expect("UTF-8"), "--output", "json"]).success();
        let mut variables: BTreeMap<String, String> =
            serde_json::from_value(variables.json()["variables"].clone()).expect("variables");
        // kiln takes the user's name from these, so that it is the same on every machine.
        variables.insert("POD_NAMESPACE".to_owned(), "default".to_owned());
        variables.insert("POD_NAME".to_owned(), "tests".to_owned());
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(connect(&variables["KUBECONFIG"]));
        std::fs::write(folder.path().join(SETTINGS), format!(r#"{{"vmssCSE": {{"commandToExecute": "{COMMAND}"}}}}"#))
            .expect("written");
        let capacities = world.lines().filter_map(|line| line.trim().strip_prefix("capacity: ")?.parse::<usize>().ok());
        let expected = capacities.sum::<usize>().max(1);
        let world = Self { sim, variables, runtime, client, folder };
        world.wait_until("all nodes are Ready", || {
            let nodes = world.nodes();
            nodes.len() >= expected && nodes.iter().all(is_ready)
        });
        world
    }

    /// A command of `kiln prototype` against this environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut all = vec!["prototype"];
        all.extend(arguments);
        let settings = self.folder.path().join(SETTINGS).display().to_string();
        let takes_settings = arguments.first().is_some_and(|verb| ["update", "auto-update", "plan"].contains(verb))
            || arguments.contains(&"original");
        let is_without = arguments.contains(&"--no-original");
        if takes_settings
            && !is_without
            && !arguments.iter().any(|argument| argument.starts_with("--protected-settings"))
        {
            all.extend(["--protected-settings", &settings]);
        }
        if !arguments.contains(&"--now") {
            all.extend(["--now", NOW]);
        }
        let mut command = kiln().command(&all);
        command.envs(&self.variables);
        command
    }

    /// Runs a command to its end, and checks that it shows no secret.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        let finished = testkit::run(self.command(arguments), DEADLINE);
        // The client secret, the custom data, which has a token in a real pool, and the protected settings.
        for secret in [self.sim.key("clientSecret"), "join the cluster", COMMAND] {
            let output = format!("{}{}{}", finished.stdout, finished.stderr, self.journal());
            assert!(!output.contains(secret), "a secret is shown: {finished}");
        }
        finished
    }

    /// Runs a command and checks its exit code.
    #[track_caller]
    pub(crate) fn exits_with(&self, code: i32, arguments: &[&str]) -> Finished {
        let finished = self.run(arguments);
        assert_eq!(finished.code, Some(code), "{finished}");
        finished
    }

    /// Starts a command. Dropping the returned value kills it.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Running(child.expect("kiln starts"))
    }

    /// The donor of the tests.
    pub(crate) fn donor() -> String {
        node(0)
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        self.runtime.block_on(api.list(&ListParams::default())).expect("nodes").items
    }

    #[track_caller]
    pub(crate) fn node(&self, name: &str) -> Node {
        let api: Api<Node> = Api::all(self.client.clone());
        self.runtime.block_on(api.get(name)).expect("a node")
    }

    /// Reasons and notes of all events.
    pub(crate) fn events(&self) -> Vec<String> {
        let api: Api<k8s_openapi::api::events::v1::Event> = Api::all(self.client.clone());
        let events = self.runtime.block_on(api.list(&ListParams::default())).expect("events");
        let words = |event: k8s_openapi::api::events::v1::Event| {
            format!("{} {}", event.reason.unwrap_or_default(), event.note.unwrap_or_default())
        };
        events.into_iter().map(words).collect()
    }

    /// Writes annotations of a node.
    pub(crate) fn annotate(&self, name: &str, annotations: &[(&str, &str)]) {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let api: Api<Node> = Api::all(self.client.clone());
        self.runtime.block_on(api.patch(name, &PatchParams::default(), &patch)).expect("annotated");
    }

    /// Creates an object of the default namespace.
    pub(crate) fn create<K>(&self, object: &Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.create_in::<K>("default", object);
    }

    /// Creates an object in a namespace.
    pub(crate) fn create_in<K>(&self, namespace: &str, object: &Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let object: K = serde_json::from_value(object.clone()).expect("an object");
        self.runtime.block_on(api.create(&kube::api::PostParams::default(), &object)).expect("created");
    }

    /// Creates an object without a namespace.
    pub(crate) fn create_cluster<K>(&self, object: &Value)
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let object: K = serde_json::from_value(object.clone()).expect("an object");
        self.runtime.block_on(api.create(&kube::api::PostParams::default(), &object)).expect("created");
    }

    /// The names of the pods in the default namespace.
    pub(crate) fn pods(&self) -> Vec<String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let pods = self.runtime.block_on(api.list(&ListParams::default())).expect("pods");
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }

    /// Deletes the pool's journal.
    pub(crate) fn delete_journal(&self) {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let name = format!("kiln-journal-{POOL}");
        self.runtime.block_on(api.delete(&name, &kube::api::DeleteParams::default())).expect("deleted");
    }

    /// Reads an object of the default namespace.
    pub(crate) fn get<K>(&self, name: &str) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), "default");
        self.runtime.block_on(api.get(name)).expect("an object")
    }

    /// Sets the capacity of the pool, as another program would.
    pub(crate) fn scale(&self, capacity: u32) {
        self.arm("PATCH", &format!("virtualMachineScaleSets/{POOL}"), &json!({"sku": {"capacity": capacity}}));
    }

    /// Sends a request to ARM, with a path below `Microsoft.Compute` of the world's resource group or from the root, and returns the answer.
    #[track_caller]
    pub(crate) fn arm(&self, method: &str, path: &str, body: &Value) -> Value {
        let key = |name: &str| self.sim.key(name).to_owned();
        let pem = std::fs::read(key("caFile")).expect("the CA's file");
        let ca = reqwest::Certificate::from_pem(&pem).expect("a certificate");
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]).build().expect("a client");
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope={}/.default",
            key("clientId"),
            key("clientSecret"),
            key("arm")
        );
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            let (subscription, group) = (key("subscriptionId"), key("resourceGroup"));
            format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/{path}")
        };
        let (status, text) = self.runtime.block_on(async {
            let url = format!("{}/{}/oauth2/v2.0/token", key("authority"), key("tenantId"));
            let request = client.post(url).header("content-type", "application/x-www-form-urlencoded").body(form);
            let answer = request.send().await.expect("an answer").text().await.expect("a body");
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            let token = answer["access_token"].as_str().expect("a token").to_owned();
            let version = match &path {
                path if path.contains("/galleries/") => "2023-07-03",
                path if path.contains("/snapshots/") => "2023-10-02",
                path if path.contains("/providers/") => "2024-03-01",
                _ => "2021-04-01",
            };
            let url = format!("{}{path}?api-version={version}", key("arm"));
            let request = client.request(method.parse().expect("a method"), url).bearer_auth(token);
            let request = match body {
                Value::Null => request,
                body => request.header("content-type", "application/json").body(body.to_string()),
            };
            let answer = request.send().await.expect("an answer");
            (answer.status(), answer.text().await.expect("a body"))
        });
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// A version of the pool, as Azure returns it.
    #[track_caller]
    pub(crate) fn version(&self, number: &str) -> Value {
        let gallery = self.sim.key("resourceGroup").replace('-', "_");
        let path = format!("galleries/SIG_{gallery}/images/kamino-{POOL}-prototype/versions/{number}");
        self.arm("GET", &path, &Value::Null)
    }

    /// The model of the pool, as Azure returns it.
    #[track_caller]
    pub(crate) fn model(&self) -> Value {
        self.arm("GET", &format!("virtualMachineScaleSets/{POOL}"), &Value::Null)["properties"]["virtualMachineProfile"]
            .take()
    }

    /// The names of all scale sets.
    #[track_caller]
    pub(crate) fn scale_sets(&self) -> Vec<String> {
        let all = self.arm("GET", "virtualMachineScaleSets", &Value::Null);
        let all = all["value"].as_array().expect("a list").iter();
        all.map(|set| set["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Writes a file, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// Collects the pods that are created from now on.
    pub(crate) fn watch_pods(&self) -> Arc<std::sync::Mutex<Vec<Pod>>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default())).expect("an answer");
        let from = list.metadata.resource_version.unwrap_or_default();
        let seen = Arc::<std::sync::Mutex<Vec<Pod>>>::default();
        let pods = seen.clone();
        self.runtime.spawn(async move {
            let events = api.watch(&WatchParams::default(), &from).await.expect("a watch");
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let WatchEvent::Added(pod) = event.expect("an event") {
                    pods.lock().expect("not poisoned").push(pod);
                }
            }
        });
        seen
    }

    /// The journal of the pool, as text.
    pub(crate) fn journal(&self) -> String {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let map = self.runtime.block_on(api.get_opt(&format!("kiln-journal-{POOL}"))).expect("an answer");
        map.and_then(|map| map.data).and_then(|mut data| data.remove("journal.jsonl")).unwrap_or_default()
    }

    /// Counts the writes of the pool's journal from now on, as the API server reports them.
    pub(crate) fn watch_journal(&self) -> JournalWatch {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let list = self.runtime.block_on(api.list(&ListParams::default())).expect("an answer");
        let from = list.metadata.resource_version.unwrap_or_default();
        let (count, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (writes, ended) = (count.clone(), closed.clone());
        self.runtime.spawn(async move {
            let events = api.watch(&WatchParams::default(), &from).await.expect("a watch");
            let mut events = std::pin::pin!(events);
            let name = format!("kiln-journal-{POOL}");
            while let Some(event) = events.next().await {
                let (WatchEvent::Added(map) | WatchEvent::Modified(map)) = event.expect("an event") else { continue };
                if map.metadata.name.as_ref() != Some(&name) {
                    continue;
                }
                writes.fetch_add(1, Ordering::Relaxed);
                let text = map.data.unwrap_or_default().remove("journal.jsonl").unwrap_or_default();
                if text.lines().last().is_some_and(|line| line.contains("\"event\":\"closed\"")) {
                    ended.store(true, Ordering::Relaxed);
                }
            }
        });
        JournalWatch { writes: count, closed }
    }

    /// Waits until a condition is true.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        for _ in 0..600 {
            if condition() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not within a minute: {what}\n{}", self.sim.stderr());
    }

    /// Asserts that a node is schedulable and not held.
    #[track_caller]
    pub(crate) fn assert_not_held(&self, name: &str) {
        let node = self.node(name);
        let annotations = node.metadata.annotations.clone().unwrap_or_default();
        assert!(node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true)), "{name} is cordoned");
        for held in ["kiln.dev/hold", "cluster-autoscaler.kubernetes.io/scale-down-disabled"] {
            assert!(!annotations.contains_key(held), "{name} has {held}: {annotations:?}");
        }
        assert!(is_ready(&node), "{name} is not Ready");
    }
}

/// See [`World::watch_journal`].
pub(crate) struct JournalWatch {
    writes: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
}

impl JournalWatch {
    /// The number of writes until the run was closed.
    #[track_caller]
    pub(crate) fn count(&self) -> usize {
        for _ in 0..600 {
            if self.closed.load(Ordering::Relaxed) {
                return self.writes.load(Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the watch reported no closed run within a minute");
    }
}

/// A process that is killed when this value is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Sends SIGKILL and waits for the end of the process.
    pub(crate) fn kill(mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("killed");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node of the pool.
pub(crate) fn node(number: u32) -> String {
    format!("{POOL}{number:06}")
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

async fn connect(kubeconfig: &str) -> kube::Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a configuration");
    config.proxy_url = None;
    kiln_tls::install();
    kube::Client::try_from(config).expect("a client")
}
