//! The settings of a systemd unit as systemd merges them: the unit file, then its drop-ins sorted by file name, whatever folder they are in.

use std::collections::BTreeMap;

use super::Tree;

/// The folders of unit files; a file in an earlier one hides those of the same name in later ones.
pub(super) const FOLDERS: [&str; 6] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// A unit with its drop-ins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFile {
    /// The unit file and the drop-ins, in the order in which systemd reads them.
    pub files: Vec<String>,
    /// Linked to `/dev/null`.
    pub is_masked: bool,
    settings: Vec<Setting>,
}

/// A line `key=value` of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub section: String,
    pub key: String,
    pub value: String,
    /// The file that contains it.
    pub file: String,
}

impl UnitFile {
    /// Reads a unit; none if there is no unit file.
    pub fn read(tree: &dyn Tree, unit: &str) -> Option<Self> {
        let path = FOLDERS.iter().map(|folder| format!("{folder}/{unit}")).find(|path| is_present(tree, path))?;
        let mut found = Self { is_masked: is_masked(tree, &path), ..Self::default() };
        found.add(tree, path);
        // All drop-ins of the type apply too.
        let type_folder = unit.rsplit_once('.').map_or(String::new(), |(_, kind)| format!("{kind}.d"));
        let mut by_name = BTreeMap::new();
        for folder in [format!("{unit}.d"), type_folder] {
            for parent in FOLDERS {
                let folder = format!("{parent}/{folder}");
                for name in tree
                    .names(&folder)
                    .into_iter()
                    .filter(|name| name.strip_suffix(".conf").is_some() && !name.starts_with('.'))
                {
                    let path = format!("{folder}/{name}");
                    by_name.entry(name).or_insert(path);
                }
            }
        }
        for path in by_name.into_values().filter(|path| !is_masked(tree, path)) {
            found.add(tree, path);
        }
        Some(found)
    }

    fn add(&mut self, tree: &dyn Tree, path: String) {
        let text = tree.text(&path).unwrap_or_default();
        self.settings.extend(parse(&text, &path));
        self.files.push(path);
    }

    /// The effective values of a setting that is a list: an empty assignment removes everything before it.
    pub fn list(&self, section: &str, key: &str) -> Vec<&Setting> {
        let mut values = Vec::new();
        for setting in self.settings.iter().filter(|setting| setting.section == section && setting.key == key) {
            if setting.value.is_empty() {
                values.clear();
            } else {
                values.push(setting);
            }
        }
        values
    }

    /// The effective conditions or assertions with their names. An empty assignment of any of them removes all before it.
    pub fn checks(&self, prefix: &str) -> Vec<&Setting> {
        let mut values = Vec::new();
        for setting in
            self.settings.iter().filter(|setting| setting.section == "Unit" && setting.key.starts_with(prefix))
        {
            if setting.value.is_empty() {
                values.clear();
            } else {
                values.push(setting);
            }
        }
        values
    }
}

fn is_present(tree: &dyn Tree, path: &str) -> bool {
    tree.exists(path) || tree.link(path).is_some()
}

/// Whether a path is a link to `/dev/null` or an empty file, with which an administrator disables a unit or drop-in.
fn is_masked(tree: &dyn Tree, path: &str) -> bool {
    tree.link(path).as_deref() == Some("/dev/null") || tree.read(path).is_some_and(|bytes| bytes.is_empty())
}

fn parse(text: &str, file: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut section = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.starts_with(['#', ';']) {
            continue;
        }
        while let Some(start) = line.strip_suffix('\\') {
            // Comments inside a continued line are skipped.
            let Some(next) = lines.by_ref().map(str::trim).find(|next| !next.starts_with(['#', ';'])) else { break };
            line = format!("{} {next}", start.trim_end());
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            settings.push(Setting { section: section.clone(), key, value, file: file.to_owned() });
        }
    }
    settings
}
