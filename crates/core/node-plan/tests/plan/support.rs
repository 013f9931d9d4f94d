//! A simulated machine, and documents for it.

use std::collections::{BTreeMap, BTreeSet};

use kiln_node_config::NodeConfig;
use kiln_node_plan::{
    Account, CloudService, Desired, DesiredFile, Facts, FileContent, FileState, Manifest, Observed, Owner, Plan, Step,
    ToObserve, layout,
};
use kiln_types::json::merge_patch;
use serde_json::{Value, json};

/// A simulated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Plain { bytes: Vec<u8>, mode: u32, owner: Owner },
    Link(String),
}

/// A simulated machine. Folders are implicit.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) facts: Facts,
    pub(crate) files: BTreeMap<String, File>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) accounts: BTreeMap<String, Account>,
    pub(crate) enabled: BTreeMap<String, bool>,
    pub(crate) swap: BTreeMap<String, u64>,
    pub(crate) mounts: Vec<String>,
    pub(crate) grown: bool,
    pub(crate) blocked: BTreeSet<CloudService>,
    pub(crate) host_name: String,
    /// The manifest of a generation that is written but not yet in force.
    pub(crate) written: Option<Manifest>,
    /// Executed service steps.
    pub(crate) services: Vec<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            facts: facts(),
            files: BTreeMap::new(),
            settings: BTreeMap::new(),
            accounts: BTreeMap::new(),
            enabled: BTreeMap::new(),
            swap: BTreeMap::new(),
            mounts: Vec::new(),
            grown: false,
            blocked: BTreeSet::new(),
            host_name: "node-1".to_owned(),
            written: None,
            services: Vec::new(),
        }
    }
}

pub(crate) fn facts() -> Facts {
    Facts { host_name: "node-1".to_owned(), cgroup_v2: true, cpus: 4, memory_bytes: 16 << 30, ..Facts::default() }
}

/// A valid document with some fields replaced.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
pub(crate) fn config(over: Value) -> NodeConfig {
    let mut spec = json!({
        "cluster": {"endpoint": "https://api.example:443", "certificateAuthority": PEM},
        "kubelet": {"version": "1.33.7"},
    });
    merge_patch(&mut spec, &over);
    NodeConfig { spec: serde_json::from_value(spec).expect("a spec"), ..NodeConfig::default() }
}

pub(crate) const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

fn sha256(bytes: &[u8]) -> String {
    FileContent::Bytes(bytes.to_vec()).sha256().expect("plain")
}

impl Machine {
    pub(crate) fn write(&mut self, path: &str, text: &str, mode: u32) {
        let file = File::Plain { bytes: text.as_bytes().to_vec(), mode, owner: Owner::root() };
        self.files.insert(path.to_owned(), file);
    }

    pub(crate) fn text(&self, path: &str) -> String {
        match self.files.get(path) {
            Some(File::Plain { bytes, .. }) => String::from_utf8_lossy(bytes).into_owned(),
            Some(File::Link(target)) => format!("-> {target}"),
            None => String::new(),
        }
    }

    /// Whether the link points at the generation of that document.
    pub(crate) fn is_at(&self, config: &NodeConfig) -> bool {
        self.text(&layout::current(layout::DOCUMENT)) == config.to_json()
    }

    /// Everything outside kiln's own folders, as text.
    pub(crate) fn outside(&self) -> String {
        let own = |path: &str| path.starts_with("/etc/kiln") || path.starts_with(layout::BEFORE);
        let files: BTreeMap<_, _> = self.files.iter().filter(|(path, _)| !own(path)).collect();
        let enabled: Vec<_> = self.enabled.iter().filter(|(_, enabled)| **enabled).collect();
        format!(
            "{files:#?}\n{:#?}\n{:#?}\n{enabled:#?}\n{:?}\n{:?}\n{:?}",
            self.settings, self.accounts, self.swap, self.mounts, self.blocked
        )
    }

    pub(crate) fn manifest(&self) -> Option<Manifest> {
        let last: Option<Manifest> = serde_json::from_str(&self.text(&layout::current(layout::MANIFEST))).ok();
        match (last, self.written.clone()) {
            (Some(last), Some(interrupted)) => Some(last.merge(interrupted)),
            (last, interrupted) => last.or(interrupted),
        }
    }

    /// The whole state; kilnd only observes what [`ToObserve`] lists.
    pub(crate) fn observed(&self) -> Observed {
        let state = |file: &File| match file {
            File::Plain { bytes, mode, owner } => {
                FileState::File { sha256: sha256(bytes), mode: *mode, owner: owner.clone() }
            }
            File::Link(target) => FileState::Link { target: target.clone() },
        };
        Observed {
            files: self.files.iter().map(|(path, file)| (path.clone(), state(file))).collect(),
            texts: self.files.keys().map(|path| (path.clone(), self.text(path))).collect(),
            settings: self.settings.clone(),
            blocked: self.blocked.clone(),
            host_name: self.host_name.clone(),
            accounts: self.accounts.clone(),
            enabled: self.enabled.clone(),
            swap: self.swap.clone(),
            mounts: self.mounts.iter().cloned().collect(),
            root_grown: self.grown,
            command_line: None,
            manifest: self.manifest(),
        }
    }

    fn observe(&self, needed: &ToObserve) -> Observed {
        let mut observed = self.observed();
        observed.files.retain(|path, _| needed.files.contains(path));
        observed.texts.retain(|path, _| needed.texts.contains(path));
        observed.settings.retain(|path, _| needed.settings.contains(path));
        observed.accounts.retain(|name, _| needed.accounts.contains(name));
        observed.enabled.retain(|unit, _| needed.enabled.contains(unit));
        observed.blocked.retain(|service| needed.blocked.contains(service));
        observed
    }

    pub(crate) fn plan(&self, in_force: Option<&NodeConfig>, wanted: &NodeConfig) -> Plan {
        let desired = Desired::render(wanted, &self.facts).expect("compatible");
        let needed = ToObserve::new(&desired, self.manifest().as_ref());
        Plan::new(in_force, wanted, &desired, &self.observe(&needed))
    }

    pub(crate) fn apply(&mut self, in_force: Option<&NodeConfig>, wanted: &NodeConfig) -> Plan {
        let desired = Desired::render(wanted, &self.facts).expect("compatible");
        let plan = self.plan(in_force, wanted);
        for step in plan.steps.iter().chain(&plan.deferred) {
            self.execute(step, &plan, &desired);
        }
        plan
    }

    fn put(&mut self, desired: &DesiredFile, path: String) {
        let file = match &desired.content {
            FileContent::Link(target) => File::Link(target.clone()),
            content => {
                File::Plain { bytes: content.expose().to_vec(), mode: desired.mode, owner: desired.owner.clone() }
            }
        };
        self.files.insert(path, file);
    }

    pub(crate) fn execute(&mut self, step: &Step, plan: &Plan, desired: &Desired) {
        match step {
            Step::BackUp { path } => {
                let file = self.files[path].clone();
                self.files.insert(layout::before(path), file);
            }
            Step::WriteGeneration => self.written = Some(plan.manifest.clone()),
            Step::SwitchGeneration => {
                self.written = None;
                self.files.retain(|path, _| !path.starts_with(layout::CURRENT));
                for file in plan.folder(desired) {
                    self.put(&file, layout::current(&file.path));
                }
            }
            Step::WriteFile(file) => self.put(file, file.path.clone()),
            Step::RestoreFile { path, before } => {
                let backup = self.files.get(&layout::before(path)).cloned();
                match before {
                    FileState::Absent | FileState::Other => self.files.remove(path),
                    FileState::Link { target } => self.files.insert(path.clone(), File::Link(target.clone())),
                    FileState::File { mode, owner, sha256: hash } => {
                        let Some(File::Plain { bytes, .. }) = backup else { panic!("no backup of {path}") };
                        assert_eq!(sha256(&bytes), *hash);
                        self.files.insert(path.clone(), File::Plain { bytes, mode: *mode, owner: owner.clone() })
                    }
                };
            }
            Step::EditFile { path, text } => self.write(path, text, 0o644),
            Step::SetKernel(setting) => {
                self.settings.insert(setting.path.clone(), setting.value.clone());
            }
            Step::BlockService { service, block: true } => _ = self.blocked.insert(*service),
            Step::BlockService { service, block: false } => _ = self.blocked.remove(service),
            Step::SetHostName { name } => self.host_name.clone_from(name),
            Step::SetAccount(account) => {
                self.accounts.insert(account.name.clone(), account.clone());
            }
            Step::RetireAccount { name } => {
                self.accounts.remove(name);
            }
            Step::Enable { unit, enabled } => {
                self.enabled.insert(unit.clone(), *enabled);
            }
            Step::GrowRoot => self.grown = true,
            Step::Swap { path, mib } => {
                self.swap.insert(path.clone(), *mib);
                self.swap.retain(|_, mib| *mib > 0);
            }
            Step::Mount(mount) => self.mounts.push(mount.path.clone()),
            Step::Stop { unit } if unit == "mnt.mount" => self.mounts.retain(|path| path != "/mnt"),
            Step::DaemonReload
            | Step::Stop { .. }
            | Step::DeleteFile { .. }
            | Step::Start { .. }
            | Step::Reload { .. }
            | Step::Restart { .. }
            | Step::Reboot => self.services.push(step.to_string()),
        }
    }
}
