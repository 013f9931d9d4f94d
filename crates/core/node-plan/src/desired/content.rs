//! Files and units that the document contains literally.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_node_config::spec::{File, Unit};

use super::Deferred;
use super::draft::Draft;
use crate::file::{DesiredFile, Owner};
use crate::layout::UNITS;

/// Folders that no document may write to: kiln's own, and virtual file systems.
const RESERVED: [&str; 8] =
    ["/dev", "/etc/kiln", "/proc", "/run/kiln", "/sys", "/usr/lib/kiln", "/var/lib/kiln", "/var/lib/kubelet/pki"];

/// Files that another field manages.
const MANAGED: [(&str, &str); 10] = [
    ("/etc/group", "spec.platform.users"),
    ("/etc/gshadow", "spec.platform.users"),
    ("/etc/hostname", "spec.platform.hostName"),
    ("/etc/machine-id", "the machine itself"),
    ("/etc/passwd", "spec.platform.users"),
    ("/etc/shadow", "spec.platform.users"),
    (UNITS, "spec.units"),
    ("/lib/systemd/system", "spec.units"),
    ("/run/systemd", "spec.units"),
    ("/usr/lib/systemd/system", "spec.units"),
];

/// Links that every supported distribution has, with their targets. Other links on the way to a file are resolved when the file is written
/// ([`is_reserved`]).
const LINKS: [(&str, &str); 7] = [
    ("/bin", "/usr/bin"),
    ("/sbin", "/usr/sbin"),
    ("/lib", "/usr/lib"),
    ("/lib32", "/usr/lib32"),
    ("/lib64", "/usr/lib64"),
    ("/var/run", "/run"),
    ("/var/lock", "/run/lock"),
];

/// The usual spelling of a path: `/lib/kiln` and `/usr/lib/kiln` are the same folder.
fn canonical(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let plain = format!("/{}", parts.join("/"));
    match LINKS.iter().find(|(link, _)| is_below(&plain, link)) {
        Some((link, target)) => format!("{target}{}", &plain[link.len()..]),
        None => plain,
    }
}

/// Whether no document may write to this path, whatever spelling of it is used.
pub fn is_reserved(path: &str) -> bool {
    let path = canonical(path);
    RESERVED.iter().any(|reserved| is_below(&path, reserved))
}

pub(super) fn render(draft: &mut Draft<'_>) {
    for file in &draft.spec.files {
        let field = format!("spec.files[{}]", file.path);
        let path = canonical(&file.path);
        if is_reserved(&path) {
            draft.reject(field, "a document may not write to this folder");
        } else if draft.desired.blocks.iter().any(|block| canonical(&block.path) == path) {
            draft.reject(field, "kiln shares this file with other programs and manages a block in it");
        } else if let Some((_, other)) = MANAGED.iter().find(|(other, _)| is_below(&path, &canonical(other))) {
            draft.reject(field, format!("this file is managed by {other}"));
        } else {
            draft.elsewhere(desired_file(file));
        }
    }
    for unit in &draft.spec.units {
        render_unit(draft, unit);
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn desired_file(file: &File) -> DesiredFile {
    let bytes = if file.content_base64.is_empty() {
        file.content.clone().into_bytes()
    } else {
        STANDARD.decode(&file.content_base64).unwrap_or_default()
    };
    let or_root = |name: &String| if name.is_empty() { "root".to_owned() } else { name.clone() };
    let mut desired = DesiredFile::plain(&file.path, bytes);
    desired.owner = Owner { user: or_root(&file.owner), group: or_root(&file.group) };
    if !file.mode.is_empty() {
        desired.mode = u32::from_str_radix(&file.mode, 8).unwrap_or(desired.mode);
    }
    let desired = file.reloads.iter().fold(desired, |desired, unit| desired.reloads(unit));
    file.restarts.iter().fold(desired, |desired, unit| desired.restarts(unit))
}

fn render_unit(draft: &mut Draft<'_>, unit: &Unit) {
    let name = &unit.name;
    if name.starts_with("kiln-") {
        draft.reject(format!("spec.units[{name}]"), "units whose names start with `kiln-` belong to the kiln package");
        return;
    }
    // Restarting a mount or a target would restart other units too, so these only get their new files.
    let restarts = [".service", ".socket", ".timer", ".path"].iter().any(|kind| name.ends_with(kind));
    let mut add = |file: DesiredFile| {
        let file = if restarts && !unit.masked { file.restarts(name) } else { file };
        draft.desired.deferred.push(Deferred::Unit(file));
    };
    if unit.masked {
        add(DesiredFile::link(format!("{UNITS}/{name}"), "/dev/null"));
    } else if !unit.content.is_empty() {
        add(DesiredFile::plain(format!("{UNITS}/{name}"), unit.content.clone()));
    }
    for drop_in in &unit.drop_ins {
        add(DesiredFile::plain(format!("{UNITS}/{name}.d/{}", drop_in.name), drop_in.content.clone()));
    }
    if let Some(enabled) = unit.enabled {
        draft.desired.deferred.push(Deferred::Enabled { unit: name.clone(), enabled });
    }
}
