//! `kilnd enable`: puts the units of the package into effect. Until then an installed package changes nothing on a node.
//!
//! On a running node that kilnd did not configure, the gate is closed until the next boot: a kubelet or containerd that restarts before would
//! not come up again. `kilnd enable` therefore masks its own drop-ins of other services in `/run` first, which is empty after a boot.

pub mod links;
pub mod plan;

use std::collections::BTreeSet;
use std::path::Path;

use kiln_node_plan::DesiredFile;
use kiln_node_plan::layout::{ADOPTED, KUBELET_UNIT, PACKAGED_UNITS, READY};
use kiln_node_plan::unit_file::UnitFile;

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity::MACHINE_ID;
use crate::node::Node;
use crate::os::systemd::Systemd;
use crate::os::unit_files::{self, MASK, RUNTIME_CONTROL};
use crate::os::{self, Durability, Root};
use links::Link;
use plan::{EnablePlan, TakesEffect};

/// How long to wait for systemd, which re-reads all units.
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// The service that runs the package's program all the time.
pub(super) const WATCH_UNIT: &str = "kiln-watch.service";

/// Options of `kilnd enable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnableOptions {
    pub yes: bool,
    pub dry_run: bool,
    /// Only update what an earlier `kilnd enable` created, after an upgrade of the package.
    pub refresh: bool,
}

/// Why kilnd was not enabled.
#[derive(Debug, thiserror::Error)]
pub enum EnableError {
    #[error("`{PACKAGED_UNITS}` contains no units\nhint: install the package `kilnd`")]
    NoPackage,
    #[error(
        "`{path}` exists and was not created by `kilnd enable`; nothing was changed\nhint: move it away, then run the command again"
    )]
    Occupied { path: String },
    #[error("kilnd is enabled, but systemd did not reload its units\nhint: run `systemctl daemon-reload`")]
    NotReloaded(#[source] os::Error),
    #[error(transparent)]
    Os(#[from] os::Error),
}

/// `kilnd enable`.
pub fn run(node: &Node, options: EnableOptions, output: Output) -> CommandResult {
    match enable(node, options, output) {
        Ok(result) => result,
        Err(error) => {
            node.log.report(&error);
            CommandResult { code: FAILED, text: String::new() }
        }
    }
}

fn enable(node: &Node, options: EnableOptions, output: Output) -> Result<CommandResult, EnableError> {
    let existing = links::existing(&node.root)?;
    if options.refresh && existing.is_empty() {
        return Ok(CommandResult { code: DONE, text: String::new() });
    }
    let plan = assess(node, &existing)?;
    let is_allowed = (options.yes || options.refresh) && !options.dry_run;
    let is_done = is_allowed || plan.is_empty();
    let mut text = match output {
        Output::Json => format!("{:#}\n", plan.to_json(is_done)),
        Output::Text if plan.is_empty() => "kilnd is enabled; nothing to do\n".to_owned(),
        Output::Text => plan.to_text(),
    };
    if is_allowed {
        act(node, &plan, options.refresh)?;
        if output == Output::Text && !plan.is_empty() {
            text.push_str("kilnd is enabled\n");
        }
    } else if !plan.is_empty() && output == Output::Text {
        text.push_str("nothing was changed\n");
        if !options.dry_run {
            text.push_str("hint: run `kilnd enable --yes`\n");
        }
    }
    let code = if is_done || options.dry_run { DONE } else { FAILED };
    Ok(CommandResult { code, text })
}

/// Reads the machine and plans the change.
pub fn assess(node: &Node, existing: &[Link]) -> Result<EnablePlan, EnableError> {
    let root = &node.root;
    let packaged = links::packaged(root)?;
    if packaged.is_empty() {
        return Err(EnableError::NoPackage);
    }
    let wanted = links::wanted(&packaged);
    let create: Vec<Link> = wanted.iter().filter(|link| !existing.contains(link)).cloned().collect();
    let remove = existing.iter().filter(|link| !wanted.iter().any(|one| one.path == link.path)).cloned().collect();
    for link in &create {
        let is_own = existing.iter().any(|one| one.path == link.path) || is_install_link(root, link)?;
        if !is_own && root.kind(&link.path)?.is_some() {
            return Err(EnableError::Occupied { path: link.path.clone() });
        }
    }
    let drop_ins: Vec<(String, UnitFile)> = wanted
        .iter()
        .filter_map(|link| {
            let (unit, name) = link.drop_in()?;
            let file = packaged.iter().find(|file| file.path == format!("{unit}.d/{name}"))?;
            Some((unit.to_owned(), UnitFile { path: link.path.clone(), text: file.text.clone() }))
        })
        .collect();
    let services = plan::services(&drop_ins, |unit| unit_files::load(root, unit))?;
    let mut missing = BTreeSet::new();
    for unit in services.keys() {
        let files = unit_files::load(root, unit)?;
        if files.iter().all(|file| plan::is_drop_in(&file.path)) {
            missing.insert(unit.clone());
        }
    }
    let (aliases, takes_effect) = (root.missing_aliases()?, takes_effect(node, existing)?);
    Ok(EnablePlan { create, remove, services, missing, aliases, takes_effect })
}

/// `kilnd install` creates a link to its own copy of a unit, which the package's replaces.
fn is_install_link(root: &Root, link: &Link) -> Result<bool, os::Error> {
    let target = root.read_link(&link.path)?;
    Ok(link.drop_in().is_none() && target.as_deref() == Some(Path::new(crate::commands::install::UNIT)))
}

/// An enabled node stays as it is: its drop-ins are in effect or masked.
fn takes_effect(node: &Node, existing: &[Link]) -> Result<TakesEffect, os::Error> {
    if systemd(node).is_none() {
        return Ok(TakesEffect::FirstBoot);
    }
    let mut drop_ins = existing.iter().filter_map(mask);
    let is_masked =
        drop_ins.try_fold(false, |any, path| Ok::<_, os::Error>(any || node.root.kind(&path)?.is_some()))?;
    let is_linked = existing.iter().any(|link| link.drop_in().is_some());
    let is_open = node.root.kind(READY)?.is_some();
    Ok(if is_masked || !is_linked && !is_open { TakesEffect::NextBoot } else { TakesEffect::Now })
}

/// The path that masks a drop-in until the next boot.
fn mask(link: &Link) -> Option<String> {
    link.drop_in().map(|(unit, name)| format!("{RUNTIME_CONTROL}/{unit}.d/{name}"))
}

/// A client, if systemd runs this machine.
pub(super) fn systemd(node: &Node) -> Option<Systemd> {
    let socket = node.systemd.as_ref().filter(|socket| os::systemd::manages_root(socket))?;
    Some(Systemd::new(socket, TIMEOUT))
}

fn act(node: &Node, plan: &EnablePlan, refresh: bool) -> Result<(), EnableError> {
    let root = &node.root;
    let mut systemd = systemd(node);
    if let (Some(systemd), TakesEffect::NextBoot, false) = (&mut systemd, plan.takes_effect, refresh) {
        record_adoption(node, systemd)?;
    }
    if let Some(aliases) = &plan.aliases {
        root.write_differing(std::slice::from_ref(aliases), Durability::Now)?;
    }
    if refresh || !plan.is_empty() {
        root.label_packaged_units()?;
    }
    if plan.takes_effect == TakesEffect::NextBoot {
        for path in plan.create.iter().filter_map(mask) {
            root.replace_link(&path, MASK, Durability::Later)?;
        }
    }
    for link in &plan.create {
        root.replace_link(&link.path, &link.target, Durability::Now)?;
    }
    for link in &plan.remove {
        remove_link_and_mask(root, link)?;
    }
    let Some(systemd) = &mut systemd else { return Ok(()) };
    // An upgrade may have changed the content behind the links.
    if refresh || !plan.is_empty() {
        systemd.daemon_reload().map_err(EnableError::NotReloaded)?;
    }
    if refresh {
        // The program was replaced. The other units run at boot only, and restarting them would change nothing.
        if let Err(error) = systemd.restart_if_running(WATCH_UNIT) {
            node.log.warn(format!("cannot restart `{WATCH_UNIT}`: {error}"));
        }
    }
    Ok(())
}

/// Records that this machine was a node before kilnd, so that `kilnd disable` restores its files.
fn record_adoption(node: &Node, systemd: &mut Systemd) -> Result<(), os::Error> {
    match node.root.read_if_exists(MACHINE_ID)? {
        Some(id) if systemd.is_up(KUBELET_UNIT)? => {
            node.root.write_differing(&[DesiredFile::new(ADOPTED, id, 0o644)], Durability::Now)
        }
        _ => Ok(()),
    }
}

/// Removes a link, then the mask of a drop-in. In the other order a reload in between would close the gate.
pub(super) fn remove_link_and_mask(root: &Root, link: &Link) -> Result<(), os::Error> {
    remove_link(root, link)?;
    match mask(link) {
        Some(path) => remove_link(root, &Link { path, target: String::new() }),
        None => Ok(()),
    }
}

/// Removes a link, and its folder if that is empty then.
pub(super) fn remove_link(root: &Root, link: &Link) -> Result<(), os::Error> {
    root.remove(&link.path, Durability::Now)?;
    match link.path.rsplit_once('/') {
        Some((folder, _)) if folder != kiln_node_plan::layout::UNITS => root.remove_empty_folder(folder).map(drop),
        _ => Ok(()),
    }
}
