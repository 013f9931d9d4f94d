//! Files and units that the document spells out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_node_config::spec::{File, Unit};

use super::Late;
use super::draft::Draft;
use crate::artifact::{Artifact, Owner};
use crate::layout::UNITS;

/// Folders that no document writes to: what kiln itself lives by, and what is no disk.
const CLOSED: [&str; 8] =
    ["/dev", "/etc/kiln", "/proc", "/run/kiln", "/sys", "/usr/lib/kiln", "/var/lib/kiln", "/var/lib/kubelet/pki"];

/// Files that other fields are for.
const OTHERS: [(&str, &str); 10] = [
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

pub(super) fn render(draft: &mut Draft<'_>) {
    for file in &draft.spec.files {
        let field = format!("spec.files[{}]", file.path);
        if CLOSED.iter().any(|closed| is_below(&file.path, closed)) {
            draft.unfit(field, "no document writes there");
        } else if draft.desired.blocks.iter().any(|block| block.path == file.path) {
            draft.unfit(field, "others write this file too; kiln keeps a part of it");
        } else if let Some((_, other)) = OTHERS.iter().find(|(other, _)| is_below(&file.path, other)) {
            draft.unfit(field, format!("this is a matter of {other}"));
        } else {
            draft.elsewhere(artifact(file));
        }
    }
    for unit in &draft.spec.units {
        render_unit(draft, unit);
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn artifact(file: &File) -> Artifact {
    let bytes = if file.content_base64.is_empty() {
        file.content.clone().into_bytes()
    } else {
        STANDARD.decode(&file.content_base64).unwrap_or_default()
    };
    let or_root = |name: &String| if name.is_empty() { "root".to_owned() } else { name.clone() };
    let mut artifact = Artifact::plain(&file.path, bytes);
    artifact.owner = Owner { user: or_root(&file.owner), group: or_root(&file.group) };
    if !file.mode.is_empty() {
        artifact.mode = u32::from_str_radix(&file.mode, 8).unwrap_or(artifact.mode);
    }
    let artifact = file.reloads.iter().fold(artifact, |artifact, unit| artifact.reloads(unit));
    file.restarts.iter().fold(artifact, |artifact, unit| artifact.restarts(unit))
}

fn render_unit(draft: &mut Draft<'_>, unit: &Unit) {
    let name = &unit.name;
    if name.starts_with("kiln-") {
        draft.unfit(format!("spec.units[{name}]"), "kiln's own units come with its package");
        return;
    }
    // A mount or a target that restarts takes others with it; those only get their new text.
    let restarts = [".service", ".socket", ".timer", ".path"].iter().any(|kind| name.ends_with(kind));
    let mut add = |artifact: Artifact| {
        let artifact = if restarts && !unit.masked { artifact.restarts(name) } else { artifact };
        draft.desired.late.push(Late::Unit(artifact));
    };
    if unit.masked {
        add(Artifact::link(format!("{UNITS}/{name}"), "/dev/null"));
    } else if !unit.content.is_empty() {
        add(Artifact::plain(format!("{UNITS}/{name}"), unit.content.clone()));
    }
    for drop_in in &unit.drop_ins {
        add(Artifact::plain(format!("{UNITS}/{name}.d/{}", drop_in.name), drop_in.content.clone()));
    }
    if let Some(enabled) = unit.enabled {
        draft.desired.late.push(Late::Enabled { unit: name.clone(), enabled });
    }
}
