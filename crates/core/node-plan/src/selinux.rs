//! SELinux labels of files, by the rules of libselinux.
//!
//! A policy lists regular expressions of paths with a label each. All lists together form one: the policy's own (`file_contexts`), the one of home
//! folders and the local one. The last matching line wins, but a path without metacharacters wins over every expression. Lines of `subs` and
//! `subs_dist` replace the front of a path before the lookup: `/run` is looked up as `/var/run`.
//!
//! A policy has thousands of lines, so an expression is compiled only if its fixed front fits the path.

use std::collections::BTreeMap;

use regex_lite::Regex;

use crate::layout::{PACKAGED_UNITS, SWAP_FILE};

/// The configuration of SELinux: whether it is used, and which policy.
pub const CONFIG: &str = "/etc/selinux/config";
/// The extended attribute with a file's label.
pub const ATTRIBUTE: &str = "security.selinux";

/// Paths of kiln that need the label of another path, as lines of `subs`. By their own paths, units would be libraries, which neither an
/// administrator nor kilnd may start or query with systemd, and the swap file would be data, which `swapon` may not read.
const ALIASES: [(&str, &str); 2] = [(PACKAGED_UNITS, "/usr/lib/systemd/system"), (SWAP_FILE, "/var/swap")];

/// The texts of a policy's lists. Missing files are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists<'a> {
    pub policy: &'a str,
    pub home_folders: &'a str,
    pub local: &'a str,
    pub subs: &'a str,
    pub subs_dist: &'a str,
}

/// The kind of an entry. A line may apply to one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// The labels of a policy.
#[derive(Debug, Default)]
pub struct FileContexts {
    /// In the order of libselinux: expressions first, then exact paths.
    lines: Vec<Line>,
    /// The numbers of lines whose matches all start with the same folder of the root, such as `/etc`.
    by_stem: BTreeMap<String, Vec<usize>>,
    /// The numbers of all other lines.
    general: Vec<usize>,
    subs: Vec<(String, String)>,
    subs_dist: Vec<(String, String)>,
}

#[derive(Debug)]
struct Line {
    pattern: String,
    /// The characters with which every matching path starts.
    front: String,
    is_exact: bool,
    kind: Option<EntryKind>,
    /// None for `<<none>>`: files that get no label.
    label: Option<String>,
}

/// The folder of the policy in use; none if SELinux is disabled.
pub fn policy_folder(config: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines =
            config.lines().filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
        lines.next_back().map(|value| value.trim().trim_matches('"'))
    };
    let name = value("SELINUXTYPE").filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.'))?;
    (!value("SELINUX").is_some_and(|state| state.eq_ignore_ascii_case("disabled")))
        .then(|| format!("/etc/selinux/{name}/contexts/files"))
}

/// The list of local aliases in a policy's folder. `semanage fcontext --equal` writes the same file.
pub fn aliases_path(policy_folder: &str) -> String {
    format!("{policy_folder}/file_contexts.subs")
}

/// A text of `subs` with the aliases of kiln's paths. None if it has them all. An administrator's alias of the same path stays.
pub fn add_aliases(subs: &str) -> Option<String> {
    let known = pairs(subs);
    let missing = ALIASES.iter().filter(|(path, _)| !known.iter().any(|(from, _)| from == path));
    let lines: Vec<String> = missing.map(|(path, other)| format!("{path} {other}\n")).collect();
    let end = if subs.is_empty() || subs.ends_with('\n') { "" } else { "\n" };
    (!lines.is_empty()).then(|| format!("{subs}{end}{}", lines.concat()))
}

/// A text of `subs` without the aliases of kiln's paths. None if nothing changes. A swap file that stays in use keeps its alias.
pub fn remove_aliases(subs: &str, keep_swap_file: bool) -> Option<String> {
    let is_ours = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        ALIASES.iter().any(|(path, other)| words == [*path, *other] && !(keep_swap_file && *path == SWAP_FILE))
    };
    let kept: String = subs.split_inclusive('\n').filter(|line| !is_ours(line)).collect();
    (kept != subs).then_some(kept)
}

impl FileContexts {
    /// Parses the lists. Lines that libselinux would reject are skipped.
    pub fn parse(lists: Lists<'_>) -> Self {
        let texts = [lists.policy, lists.home_folders, lists.local];
        let lines = texts.iter().flat_map(|text| text.lines()).filter_map(Line::parse);
        let (exact, mut lines): (Vec<Line>, Vec<Line>) = lines.partition(|line| line.is_exact);
        lines.extend(exact);
        let mut all = Self { subs: pairs(lists.subs), subs_dist: pairs(lists.subs_dist), ..Self::default() };
        for (number, line) in lines.iter().enumerate() {
            match stem(&line.front) {
                None => all.general.push(number),
                Some(stem) => match all.by_stem.get_mut(stem) {
                    Some(numbers) => numbers.push(number),
                    None => _ = all.by_stem.insert(stem.to_owned(), vec![number]),
                },
            }
        }
        all.lines = lines;
        all
    }

    /// The label of a path. None if the policy has no label for it.
    pub fn label(&self, path: &str, kind: EntryKind) -> Option<&str> {
        let path = normalized(path);
        let path = substituted(&self.subs, &path).unwrap_or(path);
        let path = substituted(&self.subs_dist, &path).unwrap_or(path);
        let fits = |line: &Line| line.kind.is_none_or(|wanted| wanted == kind) && line.matches(&path);
        let last = |numbers: &[usize], after: Option<usize>| {
            let later = numbers.iter().rev().copied().take_while(|number| after.is_none_or(|after| *number > after));
            later.into_iter().find(|number| fits(&self.lines[*number]))
        };
        let own = stem(&path).and_then(|stem| self.by_stem.get(stem));
        let own = own.and_then(|numbers| last(numbers, None));
        let found = last(&self.general, own).or(own)?;
        self.lines[found].label.as_deref()
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pattern, kind, label) = match words[..] {
            [pattern, label] => (pattern, None, label),
            [pattern, kind, label] => (pattern, Some(kind), label),
            _ => return None,
        };
        let kind = match kind {
            None => None,
            Some("--") => Some(EntryKind::File),
            Some("-d") => Some(EntryKind::Folder),
            Some("-l") => Some(EntryKind::Link),
            Some("-b" | "-c" | "-p" | "-s") => Some(EntryKind::Other),
            Some(_) => return None,
        };
        let (front, is_exact) = front(pattern);
        let label = (label != "<<none>>").then(|| label.to_owned());
        Some(Self { pattern: pattern.to_owned(), front, is_exact, kind, label })
    }

    fn matches(&self, path: &str) -> bool {
        if self.is_exact {
            return self.front == path;
        }
        path.starts_with(&self.front)
            && Regex::new(&format!("^(?s:{})$", self.pattern)).is_ok_and(|pattern| pattern.is_match(path))
    }
}

/// The characters with which every match of an expression starts, and whether they are all of it.
fn front(pattern: &str) -> (String, bool) {
    let mut front = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                // Classes such as `\d`.
                Some(escaped) if escaped.is_ascii_alphanumeric() => return (fixed(pattern, front), false),
                Some(escaped) => front.push(escaped),
                None => return (fixed(pattern, front), false),
            },
            // The character before a quantifier may be absent.
            '?' | '*' | '{' => {
                front.pop();
                return (fixed(pattern, front), false);
            }
            '.' | '^' | '$' | '+' | '[' | '(' | '|' => return (fixed(pattern, front), false),
            plain => front.push(plain),
        }
    }
    (front, true)
}

/// The front of an expression, unless it has alternatives at the top level: what is before the first one is not the front of the others.
fn fixed(pattern: &str, front: String) -> String {
    if has_alternatives(pattern) { String::new() } else { front }
}

/// Whether an expression has `|` outside of parentheses.
fn has_alternatives(pattern: &str) -> bool {
    let mut depth = 0_usize;
    let mut is_escaped = false;
    pattern.chars().any(|character| {
        let special = !std::mem::take(&mut is_escaped);
        match character {
            '\\' => is_escaped = special,
            '(' if special => depth += 1,
            ')' if special => depth = depth.saturating_sub(1),
            _ => {}
        }
        special && character == '|' && depth == 0
    })
}

/// The first folder of a path with at least two components.
fn stem(path: &str) -> Option<&str> {
    let end = path.strip_prefix('/')?.find('/')? + 1;
    Some(&path[..end])
}

/// The pairs of a `subs` file. The last line comes first, as in libselinux.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = (words.next()?, words.next()?);
        (!from.starts_with('#')).then(|| (from.to_owned(), to.to_owned()))
    };
    text.lines().rev().filter_map(pair).collect()
}

fn substituted(pairs: &[(String, String)], path: &str) -> Option<String> {
    pairs.iter().find_map(|(from, to)| {
        let rest = path.strip_prefix(from.as_str())?;
        let to = if to == "/" && rest.starts_with('/') { "" } else { to };
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
    })
}

/// A path without repeated and trailing slashes.
fn normalized(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let path = parts.fold(String::new(), |path, part| path + "/" + part);
    if path.is_empty() { "/".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "# comment\n/.*\tsystem_u:object_r:default_t:s0\n/etc/.*\tu:r:etc_t:s0\n\
                          /etc/shadow.*\t--\tu:r:shadow_t:s0\n/var/run/.*\tu:r:run_t:s0\n/etc/passwd\tu:r:passwd_t:s0\n\
                          /etc/pass[w]d\tu:r:wrong_t:s0\n/tmp/.*\t<<none>>\n/lib(32|64)?(/.*)?\tu:r:lib_t:s0\n\
                          /srv|/opt\tu:r:alternative_t:s0\n/usr/x\\.y -d u:r:folder_t:s0\n";

    fn contexts() -> FileContexts {
        FileContexts::parse(Lists {
            policy: POLICY,
            local: "/etc/kiln(/.*)? u:r:local_t:s0\n",
            subs: "/state /var/run\n",
            subs_dist: "/run /var/run\n/usr/lib64 /lib64\n",
            ..Lists::default()
        })
    }

    #[test]
    fn last_match_wins_and_exact_paths_win_over_expressions() {
        let contexts = contexts();
        let label = |path: &str| contexts.label(path, EntryKind::File);
        assert_eq!(label("/etc/hosts"), Some("u:r:etc_t:s0"));
        assert_eq!(label("/etc/passwd"), Some("u:r:passwd_t:s0"), "exact");
        assert_eq!(label("/etc/kiln/current"), Some("u:r:local_t:s0"), "the local list comes last");
        assert_eq!(label("//etc//kiln/"), Some("u:r:local_t:s0"));
        assert_eq!(label("/srv"), Some("u:r:alternative_t:s0"));
        assert_eq!(label("/opt"), Some("u:r:alternative_t:s0"));
        assert_eq!(label("/elsewhere"), Some("system_u:object_r:default_t:s0"));
        assert_eq!(label("/tmp/x"), None);
    }

    #[test]
    fn aliases_are_added_once_and_removed_again() {
        for before in ["", "/state /var/run\n", "# last line without an end\n/state /var/run"] {
            let after = add_aliases(before).expect("missing");
            assert_eq!(add_aliases(&after), None, "{after}");
            assert_eq!(remove_aliases(&after, false).expect("present").trim_end(), before.trim_end());
        }
        assert_eq!(remove_aliases("/state /var/run\n", false), None);
        let kept = remove_aliases(&add_aliases("").expect("missing"), true).expect("the units are removed");
        assert_eq!(kept, format!("{SWAP_FILE} /var/swap\n"));
        assert_eq!(remove_aliases(&kept, true), None);
        let own = format!("{SWAP_FILE} /elsewhere\n");
        let after = add_aliases(&own).expect("the units are missing");
        assert_eq!(
            after,
            format!("{own}{PACKAGED_UNITS} /usr/lib/systemd/system\n"),
            "the alias of the administrator stays"
        );
        assert_eq!(remove_aliases(&after, false), Some(own));
    }

    #[test]
    fn units_and_the_swap_file_have_the_labels_of_their_aliases() {
        let policy = "/usr/lib/.* u:r:lib_t:s0\n/usr/lib/systemd/system(/.*)? u:r:unit_t:s0\n/var/lib/.* u:r:var_lib_t:s0\n\
                      /var/swap -- u:r:swapfile_t:s0\n";
        let subs = add_aliases("").expect("missing");
        let contexts = FileContexts::parse(Lists { policy, subs: &subs, ..Lists::default() });
        let label = |path: &str| contexts.label(path, EntryKind::File);
        assert_eq!(label("/usr/lib/kiln/units/kiln-config.service"), Some("u:r:unit_t:s0"));
        assert_eq!(label("/usr/lib/kiln/image.json"), Some("u:r:lib_t:s0"));
        assert_eq!(label(SWAP_FILE), Some("u:r:swapfile_t:s0"));
        assert_eq!(label("/var/lib/kiln/state.json"), Some("u:r:var_lib_t:s0"));
    }

    #[test]
    fn kind_of_the_entry_matters() {
        let contexts = contexts();
        assert_eq!(contexts.label("/etc/shadow-", EntryKind::File), Some("u:r:shadow_t:s0"));
        assert_eq!(contexts.label("/etc/shadow-", EntryKind::Link), Some("u:r:etc_t:s0"));
        assert_eq!(contexts.label("/usr/x.y", EntryKind::Folder), Some("u:r:folder_t:s0"));
    }

    #[test]
    fn front_of_a_path_is_substituted() {
        let contexts = contexts();
        let label = |path: &str| contexts.label(path, EntryKind::File);
        assert_eq!(label("/run/kiln/ready"), Some("u:r:run_t:s0"));
        assert_eq!(label("/state/x"), Some("u:r:run_t:s0"));
        assert_eq!(label("/usr/lib64/x.so"), Some("u:r:lib_t:s0"));
        assert_eq!(label("/running"), Some("system_u:object_r:default_t:s0"));
    }

    #[test]
    fn policy_folder_is_read_from_the_configuration() {
        let folder = |text| policy_folder(text);
        let targeted = Some("/etc/selinux/targeted/contexts/files".to_owned());
        assert_eq!(folder("# x\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"), targeted);
        assert_eq!(folder("SELINUX = permissive\nSELINUXTYPE = targeted \n"), targeted);
        assert_eq!(folder("SELINUX=disabled\nSELINUXTYPE=targeted\n"), None);
        assert_eq!(folder("SELINUX=enforcing\nSELINUXTYPE=../x\n"), None);
        assert_eq!(folder(""), None);
    }

    #[test]
    fn fixed_front_of_an_expression_is_found() {
        for (pattern, wanted) in [
            ("/etc/x", ("/etc/x", true)),
            ("/usr/x\\.y", ("/usr/x.y", true)),
            ("/etc(/.*)?", ("/etc", false)),
            ("/var/logs?/x", ("/var/log", false)),
            ("/a|/b", ("", false)),
            ("/a(b|c)", ("/a", false)),
            ("/a[x]|/b", ("", false)),
            ("/dev/\\d+", ("/dev/", false)),
        ] {
            assert_eq!(front(pattern), (wanted.0.to_owned(), wanted.1), "{pattern}");
        }
    }
}
