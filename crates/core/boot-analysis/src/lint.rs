//! Orderings in unit files that cost time, or that do not do what they seem to.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A unit file or a drop-in of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The unit that it is about.
    pub unit: String,
    /// Where it is, for messages.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Units that a `.wants` or `.requires` folder pulls in: by whom, whom.
pub type Pulls = BTreeSet<(String, String)>;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// Which rule.
    pub rule: Rule,
    /// The unit that the line names.
    pub other: String,
    /// What it means.
    pub message: String,
}

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Ordered after a unit that does not exist: no wait at all.
    AfterMissing,
    /// Ordered after a unit that nobody pulls in: no wait, unless by luck.
    AfterNotPulled,
    /// Ordered after a target that itself waits for it.
    Cycle,
    /// Waits until the network is configured.
    WaitsForNetwork,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::AfterMissing => "after-missing",
            Self::AfterNotPulled => "after-not-pulled",
            Self::Cycle => "cycle",
            Self::WaitsForNetwork => "waits-for-network",
        })
    }
}

/// A setting and where it stands.
#[derive(Debug, Clone)]
struct Setting<'a> {
    path: &'a str,
    line: usize,
    key: &'a str,
    value: String,
}

/// Looks at all files at once.
pub fn lint(files: &[File], folders: &Pulls) -> Vec<Problem> {
    let mut settings: BTreeMap<&str, Vec<Setting<'_>>> = BTreeMap::new();
    for file in files {
        settings.entry(&file.unit).or_default().extend(read(file));
    }
    let graph = Graph::new(&settings, folders);
    let mut problems = Vec::new();
    for (unit, all) in &settings {
        for setting in all.iter().filter(|setting| setting.key == "After") {
            for other in setting.value.split_whitespace() {
                problems.extend(graph.judge(unit, setting, other));
            }
        }
    }
    problems.sort();
    problems
}

struct Graph<'a> {
    exists: BTreeSet<&'a str>,
    pulled: BTreeSet<String>,
    /// Who is ordered after whom: the settings themselves, and what a target implies for what it pulls in.
    after: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Graph<'a> {
    fn new(settings: &BTreeMap<&'a str, Vec<Setting<'_>>>, folders: &'a Pulls) -> Self {
        let mut graph =
            Self { exists: settings.keys().copied().collect(), pulled: BTreeSet::new(), after: BTreeMap::new() };
        let mut pulls: BTreeSet<(String, String)> = folders.clone();
        let mut loose: BTreeSet<&str> = BTreeSet::new();
        for (unit, all) in settings {
            for setting in all {
                for other in setting.value.split_whitespace() {
                    let (unit, other) = ((*unit).to_owned(), other.to_owned());
                    match setting.key {
                        "Wants" | "Requires" | "BindsTo" | "Requisite" | "Upholds" => drop(pulls.insert((unit, other))),
                        "WantedBy" | "RequiredBy" | "UpheldBy" => drop(pulls.insert((other, unit))),
                        "Alias" | "Also" | "Sockets" => drop(graph.pulled.insert(other)),
                        "After" => drop(graph.after.entry(unit).or_default().insert(other)),
                        "Before" => drop(graph.after.entry(other).or_default().insert(unit)),
                        _ => {}
                    }
                }
                if setting.key == "DefaultDependencies" && ["no", "false", "0", "off"].contains(&setting.value.as_str())
                {
                    loose.insert(unit);
                }
            }
        }
        for (by, unit) in &pulls {
            graph.pulled.insert(unit.clone());
            // A target waits for what it pulls in, unless either of them says that it does not want that.
            let orders = by.ends_with(".target") && !loose.contains(by.as_str()) && !loose.contains(unit.as_str());
            let against = graph.after.get(unit).is_some_and(|after| after.contains(by));
            if orders && !against {
                graph.after.entry(by.clone()).or_default().insert(unit.clone());
            }
        }
        graph
    }

    fn judge(&self, unit: &str, setting: &Setting<'_>, other: &str) -> Vec<Problem> {
        let problem = |rule, message: String| Problem {
            path: setting.path.to_owned(),
            line: setting.line,
            rule,
            other: other.to_owned(),
            message,
        };
        let mut found = Vec::new();
        if other == "network-online.target" {
            found.push(problem(
                Rule::WaitsForNetwork,
                format!("{unit} starts only when the network is configured: seconds, where a retry costs none"),
            ));
        }
        if !self.exists(other) {
            found.push(problem(Rule::AfterMissing, format!("{other} does not exist, so {unit} waits for nothing")));
        } else if !self.is_pulled(other) {
            let message =
                format!("nobody pulls in {other}, so {unit} does not wait for it: add Wants={other}, or drop the line");
            found.push(problem(Rule::AfterNotPulled, message));
        }
        if other.ends_with(".target") && self.reaches(other, unit) {
            let message = format!("{other} waits for {unit} and {unit} for {other}: systemd drops one of the two jobs");
            found.push(problem(Rule::Cycle, message));
        }
        found
    }

    fn exists(&self, name: &str) -> bool {
        // Made by systemd itself, by generators and by the kernel.
        let made = [".device", ".slice", ".mount", ".swap", ".scope", ".automount"];
        made.iter().any(|kind| name.ends_with(kind))
            || self.exists.contains(name)
            || self.exists.contains(template(name).as_str())
    }

    fn is_pulled(&self, name: &str) -> bool {
        // Boot pulls in the targets of its own skeleton and what it makes itself.
        let made = [".device", ".slice", ".mount", ".swap", ".scope", ".automount"];
        let skeleton = [
            "sysinit.target",
            "basic.target",
            "local-fs.target",
            "local-fs-pre.target",
            "sockets.target",
            "timers.target",
            "paths.target",
            "slices.target",
            "multi-user.target",
            "default.target",
            "graphical.target",
            "network-pre.target",
            "network.target",
            "remote-fs.target",
            "remote-fs-pre.target",
            "nss-lookup.target",
            "nss-user-lookup.target",
            "time-sync.target",
            "time-set.target",
            "shutdown.target",
            "swap.target",
            "cryptsetup.target",
            "getty.target",
        ];
        made.iter().any(|kind| name.ends_with(kind))
            || skeleton.contains(&name)
            || self.pulled.contains(name)
            || self.pulled.contains(&template(name))
    }

    /// Whether `from` waits for `to`, through however many.
    fn reaches(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(unit) = open.pop() {
            let Some(after) = self.after.get(&unit) else { continue };
            if after.contains(to) {
                return true;
            }
            open.extend(after.iter().filter(|next| seen.insert((*next).clone())).cloned());
        }
        false
    }
}

/// `getty@.service` of `getty@tty1.service`.
fn template(name: &str) -> String {
    match (name.split_once('@'), name.rsplit_once('.')) {
        (Some((stem, _)), Some((_, kind))) => format!("{stem}@.{kind}"),
        _ => name.to_owned(),
    }
}

fn read(file: &File) -> Vec<Setting<'_>> {
    let mut all: Vec<Setting<'_>> = Vec::new();
    let mut goes_on = false;
    for (index, line) in file.text.lines().enumerate() {
        let (plain, more) = match line.strip_suffix('\\') {
            Some(plain) => (plain, true),
            None => (line, false),
        };
        if goes_on {
            if let Some(last) = all.last_mut() {
                last.value.push(' ');
                last.value.push_str(plain.trim());
            }
        } else if !plain.trim_start().starts_with(['#', ';', '['])
            && let Some((key, value)) = plain.split_once('=')
        {
            let setting =
                Setting { path: &file.path, line: index + 1, key: key.trim(), value: value.trim().to_owned() };
            // An empty assignment takes back what was said before.
            if setting.value.is_empty() {
                all.retain(|before| before.key != setting.key);
            }
            all.push(setting);
        } else {
            continue;
        }
        goes_on = more;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(units: &[(&str, &str)]) -> Vec<(Rule, String, usize)> {
        let files: Vec<File> = units
            .iter()
            .map(|(unit, text)| File { unit: (*unit).into(), path: format!("/u/{unit}"), text: (*text).into() })
            .collect();
        lint(&files, &Pulls::new()).into_iter().map(|problem| (problem.rule, problem.other, problem.line)).collect()
    }

    #[test]
    fn a_unit_ordered_after_one_that_does_not_exist_is_named_with_its_line() {
        assert_eq!(
            found(&[("a.service", "[Unit]\nAfter=gone.service\n")]),
            [(Rule::AfterMissing, "gone.service".to_owned(), 2)]
        );
    }

    #[test]
    fn an_ordering_that_nobody_pulls_in_is_named_and_one_that_is_pulled_in_is_not() {
        let b = ("b.service", "[Service]\nExecStart=/b\n");
        assert_eq!(found(&[("a.service", "After=b.service"), b])[0].0, Rule::AfterNotPulled);
        assert_eq!(found(&[("a.service", "Wants=b.service\nAfter=b.service"), b]), []);
        let enabled = ("b.service", "[Install]\nWantedBy=multi-user.target\n");
        assert_eq!(found(&[("a.service", "After=b.service"), enabled]), []);
    }

    #[test]
    fn a_service_of_multi_user_that_waits_for_multi_user_by_another_is_a_cycle() {
        let units = [
            ("multi-user.target", ""),
            ("a.service", "[Unit]\nAfter=b.service\n[Install]\nWantedBy=multi-user.target\n"),
            ("b.service", "[Unit]\nAfter=multi-user.target\n[Install]\nWantedBy=multi-user.target\n"),
        ];
        assert!(found(&units).iter().any(|(rule, other, _)| *rule == Rule::Cycle && other == "multi-user.target"));
        // A direct one is no cycle: the target then does not wait for it.
        let direct = [
            ("multi-user.target", ""),
            ("b.service", "After=multi-user.target\n[Install]\nWantedBy=multi-user.target\n"),
        ];
        assert_eq!(found(&direct), []);
    }

    #[test]
    fn a_wait_for_the_network_is_named() {
        let all = found(&[
            ("k.service", "After=network-online.target\nWants=network-online.target"),
            ("network-online.target", ""),
        ]);
        assert_eq!(all, [(Rule::WaitsForNetwork, "network-online.target".to_owned(), 1)]);
    }

    #[test]
    fn lines_that_go_on_comments_and_empty_assignments_are_read_as_systemd_does() {
        let text = "# After=x.service\nAfter=one.service \\\n  two.service\nAfter=\nAfter=three.service\n";
        assert_eq!(found(&[("a.service", text)]), [(Rule::AfterMissing, "three.service".to_owned(), 5)]);
    }
}
