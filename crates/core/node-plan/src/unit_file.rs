//! Unit files of systemd: which directives are in force after all drop-ins, and which of them further drop-ins replace.

/// A unit file or a drop-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile {
    pub path: String,
    pub text: String,
}

/// One assignment of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    pub section: String,
    pub name: String,
    /// Empty for an assignment that resets the directive.
    pub value: String,
    /// The file that contains it.
    pub path: String,
}

/// What drop-ins change of one directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectiveChange {
    pub name: String,
    /// Values that are no longer in force.
    pub removed: Vec<Directive>,
    pub added: Vec<Directive>,
}

/// Directives of which every assignment counts, until an empty one resets them. For all others the last assignment counts.
const LISTS: [&str; 18] = [
    "After",
    "Before",
    "BindsTo",
    "Conflicts",
    "Documentation",
    "OnFailure",
    "OnSuccess",
    "PartOf",
    "PropagatesReloadTo",
    "PropagatesStopTo",
    "ReloadPropagatedFrom",
    "Requires",
    "RequiresMountsFor",
    "Requisite",
    "SystemCallFilter",
    "Upholds",
    "Wants",
    "WantsMountsFor",
];
const LIST_PREFIXES: [&str; 4] = ["Assert", "Condition", "Environment", "Exec"];
/// An empty assignment of one of them resets all directives with the prefix.
const GROUPS: [&str; 2] = ["Assert", "Condition"];
/// An empty assignment has no effect.
const DEPENDENCIES: [&str; 10] = [
    "After",
    "Before",
    "BindsTo",
    "Conflicts",
    "PartOf",
    "Requires",
    "Requisite",
    "Upholds",
    "Wants",
    "WantsMountsFor",
];

impl UnitFile {
    /// The assignments of a file, in order. Continued lines are joined.
    pub fn directives(&self) -> Vec<Directive> {
        let (mut found, mut section) = (Vec::new(), String::new());
        let mut continued = String::new();
        for line in self.text.lines() {
            let line = line.trim();
            // systemd skips comments also inside continued lines.
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(start) = line.strip_suffix('\\') {
                continued.push_str(start.trim_end());
                continued.push(' ');
                continue;
            }
            let whole = std::mem::take(&mut continued) + line;
            if let Some(name) = whole.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
            } else if let Some((name, value)) = whole.split_once('=') {
                found.push(Directive {
                    section: section.clone(),
                    name: name.trim().to_owned(),
                    value: value.trim().to_owned(),
                    path: self.path.clone(),
                });
            }
        }
        found
    }
}

/// The assignments that are in force after reading these files in this order: the unit file, then its drop-ins.
pub fn effective(files: &[UnitFile]) -> Vec<Directive> {
    let mut in_force: Vec<Directive> = Vec::new();
    for directive in files.iter().flat_map(UnitFile::directives) {
        let name = directive.name.as_str();
        let same = |other: &Directive| other.section == directive.section && other.name == name;
        if directive.value.is_empty() {
            let group = GROUPS.into_iter().find(|group| name.starts_with(group));
            if !DEPENDENCIES.contains(&name) {
                in_force.retain(|other| !same(other) && group.is_none_or(|group| !other.name.starts_with(group)));
            }
        } else {
            if !is_list(name) {
                in_force.retain(|other| !same(other));
            }
            in_force.push(directive);
        }
    }
    in_force
}

/// The directives that differ between two sets of files of one unit, in the order of the second set.
pub fn changes(before: &[UnitFile], after: &[UnitFile]) -> Vec<DirectiveChange> {
    let (before, after) = (effective(before), effective(after));
    let mut names: Vec<(&str, &str)> = Vec::new();
    for directive in after.iter().chain(&before) {
        let name = (directive.section.as_str(), directive.name.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let values = |all: &[Directive], (section, name): (&str, &str)| -> Vec<Directive> {
        all.iter().filter(|one| one.section == section && one.name == name).cloned().collect()
    };
    let without = |all: &[Directive], other: &[Directive]| -> Vec<Directive> {
        let is_kept = |one: &&Directive| !other.iter().any(|other| other.value == one.value);
        all.iter().filter(is_kept).cloned().collect()
    };
    names
        .into_iter()
        .map(|name| {
            let (old, new) = (values(&before, name), values(&after, name));
            DirectiveChange { name: name.1.to_owned(), removed: without(&old, &new), added: without(&new, &old) }
        })
        .filter(|change| !change.removed.is_empty() || !change.added.is_empty())
        .collect()
}

fn is_list(name: &str) -> bool {
    LISTS.contains(&name) || LIST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> UnitFile {
        UnitFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn lines(directives: &[Directive]) -> Vec<String> {
        directives.iter().map(|one| format!("{}={}", one.name, one.value)).collect()
    }

    #[test]
    fn continued_lines_are_joined_and_comments_skipped() {
        let text = "# c\n[Service]\nExecStart=/bin/a \\\n  # c\n  --b \\\n  --c\n; c\n[Unit]\nAfter = x\n";
        let directives = file("u", text).directives();
        assert_eq!(lines(&directives), ["ExecStart=/bin/a --b --c", "After=x"]);
        assert_eq!(directives.iter().map(|one| one.section.as_str()).collect::<Vec<_>>(), ["Service", "Unit"]);
    }

    #[test]
    fn empty_assignment_resets_lists_and_a_later_assignment_replaces_a_single_value() {
        let unit = "[Unit]\nWants=a\nConditionPathExists=/x\nConditionVirtualization=no\n[Service]\nExecStart=/old\nRestart=no\n";
        let drop_in =
            "[Unit]\nWants=\nWants=b\nConditionPathExists=\n[Service]\nExecStart=\nExecStart=/new\nRestart=always\n";
        let all = effective(&[file("u", unit), file("d", drop_in)]);
        assert_eq!(lines(&all), ["Wants=a", "Wants=b", "ExecStart=/new", "Restart=always"]);
    }

    /// The drop-in of the kubeadm package, and one of kilnd that sorts after it.
    #[test]
    fn changes_name_the_values_that_are_replaced_and_their_files() {
        let unit = file(
            "kubelet.service",
            "[Unit]\nWants=network-online.target\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\n",
        );
        let kubeadm = file(
            "10-kubeadm.conf",
            "[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $ARGS\n",
        );
        let kiln = file(
            "99-kiln.conf",
            "[Unit]\nConditionPathExists=/run/kiln/ready\n[Service]\nEnvironmentFile=\nExecStart=\nExecStart=/etc/kiln/current/kubelet\nRestart=always\n",
        );
        let before = [unit, kubeadm];
        let found = changes(&before, &[before[0].clone(), before[1].clone(), kiln]);
        let shown: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), lines(&one.removed), lines(&one.added))).collect();
        let none = Vec::<String>::new();
        assert_eq!(
            shown,
            [
                ("ConditionPathExists", none.clone(), vec!["ConditionPathExists=/run/kiln/ready".to_owned()]),
                (
                    "ExecStart",
                    vec!["ExecStart=/usr/bin/kubelet $ARGS".to_owned()],
                    vec!["ExecStart=/etc/kiln/current/kubelet".to_owned()]
                ),
                ("EnvironmentFile", vec!["EnvironmentFile=-/etc/default/kubelet".to_owned()], none),
            ]
        );
        assert_eq!(found[1].removed[0].path, "10-kubeadm.conf");
        assert_eq!(changes(&before, &before), []);
    }
}
