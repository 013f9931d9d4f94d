//! `kilnd disable`: removes kilnd's units and drop-ins, so that the node starts its kubelet and containerd as it did before `kilnd enable`.
//! Nothing is restarted: running services keep running, and use their own unit files from their next start.
//!
//! The package's scripts run this before the package is removed: a gate that nothing opens would keep the kubelet down.

use std::fmt::Write as _;

use kiln_node_plan::layout::{ADOPTED, CURRENT, KUBELET_UNIT, LOCK, READY, RUNTIME_UNIT};
use serde_json::json;

use crate::apply::{self, join_tokens};
use crate::args::Output;
use crate::commands::enable::links::{self, Link};
use crate::commands::enable::{remove_link, remove_link_and_mask, systemd};
use crate::commands::install;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity::MACHINE_ID;
use crate::node::Node;
use crate::os::systemd::Systemd;
use crate::os::{self, Durability, Lock, Root};

/// Units that must not run on: `kilnd watch` would apply documents, and `kilnd boot` open the gate. In this order, because kiln-config requires
/// kiln-identity.
const STOPPED: [&str; 3] = ["kiln-watch.service", "kiln-config.service", "kiln-identity.service"];

/// A gate that belongs to the image instead of the package.
const IMAGE_UNIT: &str = "/usr/lib/systemd/system/kiln-config.service";

/// The treatment of files that the generations wrote outside `/etc/kiln`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// They are restored where the machine was a node before `kilnd enable`. A machine that kilnd provisioned needs them: without its network
    /// configuration and accounts it would not keep running.
    #[default]
    Automatic,
    Restore,
    Keep,
}

/// Options of `kilnd disable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisableOptions {
    pub yes: bool,
    pub dry_run: bool,
    pub files: Files,
}

/// Why kilnd was not disabled.
#[derive(Debug, thiserror::Error)]
pub enum DisableError {
    #[error(
        "the units of kilnd are part of this image (`{IMAGE_UNIT}`); nothing was changed\nhint: remove them from the image, or mask `kiln-config.service` and the drop-ins of kubelet and containerd"
    )]
    Image,
    #[error(
        "the units are removed, but systemd did not reload\nhint: run `systemctl daemon-reload`, then `kilnd disable --yes` again"
    )]
    NotReloaded(#[source] os::Error),
    #[error(
        "kilnd is disabled, but the files of its generation were not restored\nhint: fix the cause and run `kilnd disable --restore --yes`"
    )]
    NotRestored(#[source] apply::Error),
    #[error(transparent)]
    Os(#[from] os::Error),
}

/// What `kilnd disable` would remove and restore.
struct DisablePlan {
    links: Vec<Link>,
    /// Files of `kilnd install`.
    installed: Vec<String>,
    restore: bool,
}

/// `kilnd disable`.
pub fn run(node: &Node, options: DisableOptions, output: Output) -> CommandResult {
    match disable(node, options, output) {
        Ok(result) => result,
        Err(error) => {
            node.log.report(&error);
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

fn disable(node: &Node, options: DisableOptions, output: Output) -> Result<CommandResult, DisableError> {
    let plan = assess(node, options.files)?;
    let is_allowed = options.yes && !options.dry_run;
    let is_done = is_allowed || plan.is_empty();
    let mut text = match output {
        Output::Json => {
            let paths: Vec<&str> = plan.paths().collect();
            format!("{:#}\n", json!({"enabled": !is_done, "remove": paths, "restoreFiles": plan.restore}))
        }
        Output::Text if plan.is_empty() => "kilnd is not enabled; nothing to do\n".to_owned(),
        Output::Text => plan.to_text(),
    };
    if is_allowed && !plan.is_empty() {
        act(node, &plan)?;
        if output == Output::Text {
            text.push_str("kilnd is disabled; running services were not restarted\n");
        }
    } else if !plan.is_empty() && output == Output::Text {
        text.push_str("nothing was changed\n");
        if !options.dry_run {
            text.push_str("hint: run `kilnd disable --yes`\n");
        }
    }
    let code = if is_done || options.dry_run { DONE } else { FAILED };
    Ok(CommandResult { code, text })
}

fn assess(node: &Node, files: Files) -> Result<DisablePlan, DisableError> {
    let root = &node.root;
    let links = links::existing(root)?;
    if root.kind(IMAGE_UNIT)?.is_some() {
        return Err(DisableError::Image);
    }
    let mut installed = Vec::new();
    // The gate first, as for links.
    for path in [install::GATE, install::LINK, install::UNIT] {
        let is_linked = links.iter().any(|link| link.path == path);
        if !is_linked && root.kind(path)?.is_some() {
            installed.push(path.to_owned());
        }
    }
    let has_generation = root.kind(CURRENT)?.is_some();
    let restore = has_generation
        && match files {
            Files::Automatic => !links.is_empty() && is_adopted(node)?,
            Files::Restore => true,
            Files::Keep => false,
        };
    Ok(DisablePlan { links, installed, restore })
}

/// Whether this machine was a node before `kilnd enable`. A clone of such a machine was not.
fn is_adopted(node: &Node) -> Result<bool, os::Error> {
    let (adopted, machine) = (node.root.read_if_exists(ADOPTED)?, node.root.read_if_exists(MACHINE_ID)?);
    Ok(adopted.is_some() && adopted == machine)
}

impl DisablePlan {
    fn is_empty(&self) -> bool {
        self.links.is_empty() && self.installed.is_empty() && !self.restore
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.path.as_str()).chain(self.installed.iter().map(String::as_str))
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for path in self.paths() {
            _ = writeln!(text, "remove {path}");
        }
        text.push_str(if self.restore {
            "restore all files and settings that the generation in force changed\n"
        } else {
            "keep the files and settings of the generation in force, if there is one\n"
        });
        text
    }
}

fn act(node: &Node, plan: &DisablePlan) -> Result<(), DisableError> {
    let root = &node.root;
    let mut systemd = systemd(node);
    if let Some(systemd) = &mut systemd {
        for unit in STOPPED {
            match systemd.stop(unit) {
                Err(error) if !error.is_no_such_unit() => return Err(error.into()),
                _ => {}
            }
        }
    }
    let _lock = Lock::take(root, LOCK)?;
    remove_units(root, plan)?;
    if let Some(systemd) = &mut systemd {
        systemd.daemon_reload().map_err(DisableError::NotReloaded)?;
        warn_about_stopped(node, systemd)?;
    }
    // After the reload: systemd would not restart a kubelet while it knows the gate.
    root.remove(READY, Durability::Later)?;
    if plan.restore {
        let restored = node.log.step("restore the files from before kiln", || apply::restore_original(node));
        restored.map_err(DisableError::NotRestored)?;
    }
    remove_tokens(node)?;
    root.remove_aliases()?;
    root.remove(ADOPTED, Durability::Now)?;
    Ok(())
}

/// Removes the join tokens of a node that has joined. `kilnd watch` does so once a generation is committed, and does not run any more. After the
/// files were restored, because that reads the generation in force.
fn remove_tokens(node: &Node) -> Result<(), os::Error> {
    if !join_tokens::remove(&node.root)? {
        for path in join_tokens::find(&node.root)? {
            let path = path.display();
            node.log
                .warn(format!("`{path}` has a join token, and the kubelet has not joined yet: delete it when it has"));
        }
    }
    Ok(())
}

/// Removes links, masks and files. An interrupted removal is continued by the next one.
fn remove_units(root: &Root, plan: &DisablePlan) -> Result<(), os::Error> {
    for link in &plan.links {
        remove_link_and_mask(root, link)?;
    }
    for path in &plan.installed {
        remove_link(root, &Link { path: path.clone(), target: String::new() })?;
    }
    Ok(())
}

/// Warns about services that the gate has prevented from starting. kilnd does not start them: a clone may still have its donor's identity.
fn warn_about_stopped(node: &Node, systemd: &mut Systemd) -> Result<(), os::Error> {
    for unit in [KUBELET_UNIT, RUNTIME_UNIT] {
        let state = systemd.unit(unit)?;
        if state.load == "loaded" && !state.is_active() && !state.conditions {
            node.log.warn(format!("`{unit}` does not run; start it with `systemctl start {unit}`"));
        }
    }
    Ok(())
}
