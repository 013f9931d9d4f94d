//! What `kilnd enable` would change, as values and as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kiln_node_plan::DesiredFile;
use kiln_node_plan::unit_file::{Directive, DirectiveChange, UnitFile, changes};
use serde_json::{Value, json};

use super::links::Link;

/// When the units take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// The machine runs without kilnd. Until its next boot, runtime masks hide the drop-ins.
    NextBoot,
    /// No systemd runs here, as in the root folder of an image.
    FirstBoot,
    /// kilnd configured this boot.
    Now,
}

/// What `kilnd enable` would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnablePlan {
    pub create: Vec<Link>,
    /// Links of an earlier version of the package.
    pub remove: Vec<Link>,
    /// The services that get a drop-in, with the directives that change.
    pub services: BTreeMap<String, Vec<DirectiveChange>>,
    /// Services that get a drop-in and do not exist.
    pub missing: BTreeSet<String>,
    /// The SELinux policy's list of aliases, if it lacks those of kiln's paths.
    pub aliases: Option<DesiredFile>,
    pub takes_effect: TakesEffect,
}

impl EnablePlan {
    /// Whether nothing has to be done.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.remove.is_empty() && self.aliases.is_none()
    }

    /// For `--output json`.
    pub fn to_json(&self, is_done: bool) -> Value {
        let values = |all: &[Directive]| -> Vec<Value> {
            all.iter().map(|one| json!({"value": one.value, "file": one.path})).collect()
        };
        let change = |one: &DirectiveChange| {
            json!({
                "directive": one.name, "removed": values(&one.removed), "added": values(&one.added),
            })
        };
        let services: BTreeMap<&String, Vec<Value>> =
            self.services.iter().map(|(unit, changes)| (unit, changes.iter().map(change).collect())).collect();
        let takes_effect = match self.takes_effect {
            TakesEffect::NextBoot => "nextBoot",
            TakesEffect::FirstBoot => "firstBoot",
            TakesEffect::Now => "now",
        };
        json!({
            "enabled": is_done || self.is_empty(), "create": self.create, "remove": self.remove, "services": services,
            "missingServices": self.missing, "takesEffect": takes_effect,
            "labelAliases": self.aliases.as_ref().map(|file| &file.path),
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for link in &self.create {
            _ = writeln!(text, "create {} -> {}", link.path, link.target);
        }
        for link in &self.remove {
            _ = writeln!(text, "remove {} -> {}", link.path, link.target);
        }
        if let Some(file) = &self.aliases {
            _ = writeln!(text, "add the SELinux labels of kiln's units and swap file to {}", file.path);
        }
        for (unit, changes) in &self.services {
            let missing = if self.missing.contains(unit) { " (does not exist on this machine)" } else { "" };
            _ = writeln!(text, "{unit}{missing}:");
            for change in changes {
                for one in &change.removed {
                    _ = writeln!(text, "  - {}={} ({})", one.name, one.value, one.path);
                }
                for one in &change.added {
                    _ = writeln!(text, "  + {}={}", one.name, one.value);
                }
            }
        }
        text.push_str(match self.takes_effect {
            TakesEffect::NextBoot => {
                "takes effect at the next boot; no service is restarted, and until then services restart as before\n"
            }
            TakesEffect::FirstBoot => "takes effect at the first boot of this root folder\n",
            TakesEffect::Now => "takes effect now; no service is restarted\n",
        });
        text
    }
}

/// The directives of each service that these drop-ins change. `load` reads a unit with its drop-ins.
pub fn services<E>(
    drop_ins: &[(String, UnitFile)],
    mut load: impl FnMut(&str) -> Result<Vec<UnitFile>, E>,
) -> Result<BTreeMap<String, Vec<DirectiveChange>>, E> {
    let mut found = BTreeMap::new();
    let units: BTreeSet<&String> = drop_ins.iter().map(|(unit, _)| unit).collect();
    for unit in units {
        let ours: Vec<&UnitFile> = drop_ins.iter().filter(|(of, _)| of == unit).map(|(_, file)| file).collect();
        let mut before = load(unit)?;
        before.retain(|file| !ours.iter().any(|own| own.path == file.path));
        found.insert(unit.clone(), changes(&before, &insert(&before, &ours)));
    }
    Ok(found)
}

/// The files of a unit with further drop-ins, in systemd's order. A drop-in hides one with the same name.
fn insert(files: &[UnitFile], drop_ins: &[&UnitFile]) -> Vec<UnitFile> {
    let (mut all, old): (Vec<UnitFile>, Vec<UnitFile>) =
        files.iter().cloned().partition(|file| !is_drop_in(&file.path));
    let mut by_name: BTreeMap<String, UnitFile> = BTreeMap::new();
    for file in old.into_iter().chain(drop_ins.iter().map(|file| (*file).clone())) {
        by_name.insert(file_name(&file.path).to_owned(), file);
    }
    all.extend(by_name.into_values());
    all
}

/// Whether a path is that of a drop-in.
pub fn is_drop_in(path: &str) -> bool {
    path.strip_suffix(".conf").is_some()
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> UnitFile {
        UnitFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// A drop-in that sorts before another one loses, and the plan shows it.
    #[test]
    fn drop_in_that_loses_replaces_nothing() {
        let unit = file("/u/k.service", "[Service]\nExecStart=/a\n");
        let other = file("/u/k.service.d/10-kubeadm.conf", "[Service]\nExecStart=\nExecStart=/b\n");
        let own = |name: &str| file(&format!("/e/k.service.d/{name}"), "[Service]\nExecStart=\nExecStart=/c\n");
        let changed = |name: &str| {
            let drop_ins = [("k.service".to_owned(), own(name))];
            let found = services(&drop_ins, |_| Ok::<_, ()>(vec![unit.clone(), other.clone()])).expect("read");
            found["k.service"].len()
        };
        assert_eq!(changed("10-kiln.conf"), 0);
        assert_eq!(changed("99-kiln.conf"), 1);
        // Already linked: the comparison is with the files without it.
        let drop_ins = [("k.service".to_owned(), own("99-kiln.conf"))];
        let loaded = vec![unit.clone(), other.clone(), own("99-kiln.conf")];
        assert_eq!(services(&drop_ins, |_| Ok::<_, ()>(loaded.clone())).expect("read")["k.service"].len(), 1);
    }
}
