//! Checks of unit files: orderings that cost time or have no effect.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A unit file or a drop-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub unit: String,
    /// For messages only; the crate does no I/O.
    pub path: String,
    pub text: String,
}

/// Pairs of units: the first pulls in the second through a `.wants` or `.requires` folder.
pub type Pulls = BTreeSet<(String, String)>;

/// A finding in a unit file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    pub rule: Rule,
    /// The unit in the `After=` line.
    pub other: String,
    pub message: String,
}

/// The checks. To add one, add a variant and its name here, and the condition to `Graph::check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Ordered after a unit that does not exist, which has no effect.
    AfterMissing,
    /// Ordered after a unit that no other unit pulls in, so it is usually not started.
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

/// A `Key=value` line and its position.
#[derive(Debug, Clone)]
struct Setting<'a> {
    path: &'a str,
    line: usize,
    key: &'a str,
    value: String,
}

/// Checks all files together, since most findings depend on other units.
pub fn lint(files: &[File], folders: &Pulls) -> Vec<Problem> {
    let mut settings: BTreeMap<&str, Vec<Setting<'_>>> = BTreeMap::new();
    for file in files {
        settings.entry(&file.unit).or_default().extend(parse(file));
    }
    let graph = Graph::new(&settings, folders);
    let mut problems = Vec::new();
    for (unit, all) in &settings {
        for setting in all.iter().filter(|setting| setting.key == "After") {
            for other in setting.value.split_whitespace() {
                problems.extend(graph.check(unit, setting, other));
            }
        }
    }
    problems.sort();
    problems
}

struct Graph<'a> {
    exists: BTreeSet<&'a str>,
    pulled: BTreeSet<String>,
    /// Unit to the units it is ordered after: explicit settings, and the implicit ordering of a target after the units it pulls in.
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
            // A target is ordered after the units it pulls in, unless one of the two has DefaultDependencies=no.
            let orders = by.ends_with(".target") && !loose.contains(by.as_str()) && !loose.contains(unit.as_str());
            let against = graph.after.get(unit).is_some_and(|after| after.contains(by));
            if orders && !against {
                graph.after.entry(by.clone()).or_default().insert(unit.clone());
            }
        }
        graph
    }

    fn check(&self, unit: &str, setting: &Setting<'_>, other: &str) -> Vec<Problem> {
        let problem = |rule, message: String| Problem {
            path: setting.path.to_owned(),
            line: setting.line,
            rule,
            other: other.to_owned(),
            message,
        };
        let mut problems = Vec::new();
        if other == "network-online.target" {
            problems.push(problem(
                Rule::WaitsForNetwork,
                format!(
                    "{unit} starts only after the network is configured, which takes seconds; retrying costs nothing"
                ),
            ));
        }
        if !self.exists(other) {
            problems.push(problem(
                Rule::AfterMissing,
                format!("{other} does not exist, so the ordering of {unit} has no effect"),
            ));
        } else if !self.is_pulled(other) {
            let message = format!(
                "no unit pulls in {other}, so {unit} does not wait for it; add `Wants={other}` or remove the line"
            );
            problems.push(problem(Rule::AfterNotPulled, message));
        }
        if other.ends_with(".target") && self.reaches(other, unit) {
            let message =
                format!("{other} waits for {unit} and {unit} waits for {other}; systemd drops one of the two jobs");
            problems.push(problem(Rule::Cycle, message));
        }
        problems
    }

    fn exists(&self, name: &str) -> bool {
        // Created by systemd, by generators or by the kernel.
        let generated = [".device", ".slice", ".mount", ".swap", ".scope", ".automount"];
        generated.iter().any(|kind| name.ends_with(kind))
            || self.exists.contains(name)
            || self.exists.contains(template(name).as_str())
    }

    fn is_pulled(&self, name: &str) -> bool {
        // Standard targets of every boot, and units that systemd creates.
        let generated = [".device", ".slice", ".mount", ".swap", ".scope", ".automount"];
        let standard = [
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
        generated.iter().any(|kind| name.ends_with(kind))
            || standard.contains(&name)
            || self.pulled.contains(name)
            || self.pulled.contains(&template(name))
    }

    /// Whether `from` waits for `to`, directly or indirectly.
    fn reaches(&self, from: &str, to: &str) -> bool {
        let mut visited = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(unit) = open.pop() {
            let Some(after) = self.after.get(&unit) else { continue };
            if after.contains(to) {
                return true;
            }
            open.extend(after.iter().filter(|next| visited.insert((*next).clone())).cloned());
        }
        false
    }
}

/// The template of an instance: `getty@.service` for `getty@tty1.service`.
fn template(name: &str) -> String {
    match (name.split_once('@'), name.rsplit_once('.')) {
        (Some((stem, _)), Some((_, kind))) => format!("{stem}@.{kind}"),
        _ => name.to_owned(),
    }
}

fn parse(file: &File) -> Vec<Setting<'_>> {
    let mut all: Vec<Setting<'_>> = Vec::new();
    let mut is_continued = false;
    for (index, line) in file.text.lines().enumerate() {
        let (plain, more) = match line.strip_suffix('\\') {
            Some(plain) => (plain, true),
            None => (line, false),
        };
        if is_continued {
            if let Some(last) = all.last_mut() {
                last.value.push(' ');
                last.value.push_str(plain.trim());
            }
        } else if !plain.trim_start().starts_with(['#', ';', '['])
            && let Some((key, value)) = plain.split_once('=')
        {
            let setting =
                Setting { path: &file.path, line: index + 1, key: key.trim(), value: value.trim().to_owned() };
            // An empty assignment resets the setting.
            if setting.value.is_empty() {
                all.retain(|before| before.key != setting.key);
            }
            all.push(setting);
        } else {
            continue;
        }
        is_continued = more;
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
    fn an_ordering_after_a_missing_unit_is_reported_with_its_line() {
        assert_eq!(
            found(&[("a.service", "[Unit]\nAfter=gone.service\n")]),
            [(Rule::AfterMissing, "gone.service".to_owned(), 2)]
        );
    }

    #[test]
    fn an_ordering_is_reported_unless_a_unit_pulls_in_the_other() {
        let b = ("b.service", "[Service]\nExecStart=/b\n");
        assert_eq!(found(&[("a.service", "After=b.service"), b])[0].0, Rule::AfterNotPulled);
        assert_eq!(found(&[("a.service", "Wants=b.service\nAfter=b.service"), b]), []);
        let enabled = ("b.service", "[Install]\nWantedBy=multi-user.target\n");
        assert_eq!(found(&[("a.service", "After=b.service"), enabled]), []);
    }

    #[test]
    fn an_indirect_ordering_after_the_own_target_is_a_cycle() {
        let units = [
            ("multi-user.target", ""),
            ("a.service", "[Unit]\nAfter=b.service\n[Install]\nWantedBy=multi-user.target\n"),
            ("b.service", "[Unit]\nAfter=multi-user.target\n[Install]\nWantedBy=multi-user.target\n"),
        ];
        assert!(found(&units).iter().any(|(rule, other, _)| *rule == Rule::Cycle && other == "multi-user.target"));
        // With a direct ordering, systemd does not add the implicit one, so there is no cycle.
        let direct = [
            ("multi-user.target", ""),
            ("b.service", "After=multi-user.target\n[Install]\nWantedBy=multi-user.target\n"),
        ];
        assert_eq!(found(&direct), []);
    }

    #[test]
    fn an_ordering_after_network_online_is_reported() {
        let all = found(&[
            ("k.service", "After=network-online.target\nWants=network-online.target"),
            ("network-online.target", ""),
        ]);
        assert_eq!(all, [(Rule::WaitsForNetwork, "network-online.target".to_owned(), 1)]);
    }

    #[test]
    fn continued_lines_comments_and_empty_assignments_are_parsed_as_in_systemd() {
        let text = "# After=x.service\nAfter=one.service \\\n  two.service\nAfter=\nAfter=three.service\n";
        assert_eq!(found(&[("a.service", text)]), [(Rule::AfterMissing, "three.service".to_owned(), 5)]);
    }
}
