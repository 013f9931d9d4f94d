//! The account files as text. Lines of other accounts stay unchanged, byte for byte.

use kiln_node_plan::Owner;

/// The first uid of login accounts; lower ones are for services.
const FIRST: u32 = 1000;
/// The last uid: the usual `UID_MAX` of `login.defs`.
const LAST: u32 = 60_000;
/// No password matches, but the account is not locked. With `!` an sshd without PAM would reject keys too.
const NO_PASSWORD: &str = "*";

/// `passwd`, `group`, `shadow` and `gshadow`. The last two are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    pub(super) passwd: Vec<String>,
    pub(super) group: Vec<String>,
    pub(super) shadow: Option<Vec<String>>,
    pub(super) gshadow: Option<Vec<String>>,
}

/// A line of `passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
    pub(super) shell: String,
}

impl Person {
    pub(super) fn owner(&self) -> Owner {
        Owner::from_ids(self.uid, self.gid)
    }
}

impl Lists {
    pub(super) fn person(&self, name: &str) -> Option<Person> {
        let fields: Vec<&str> = find(&self.passwd, name)?.split(':').collect();
        let [_, _, uid, gid, _, home, shell] = fields[..] else { return None };
        Some(Person { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned(), shell: shell.to_owned() })
    }

    /// The groups of a user, sorted.
    pub(super) fn groups_of(&self, name: &str) -> Vec<String> {
        let lists =
            |line: &&String| line.split(':').nth(3).is_some_and(|members| members.split(',').any(|one| one == name));
        let mut groups: Vec<String> = self.group.iter().filter(lists).map(|line| key(line).to_owned()).collect();
        groups.sort_unstable();
        groups
    }

    pub(super) fn has_group(&self, name: &str) -> bool {
        find(&self.group, name).is_some()
    }

    /// Whether an account is disabled.
    pub(super) fn is_retired(&self, name: &str) -> bool {
        let Some(line) = self.shadow.as_deref().and_then(|shadow| find(shadow, name)) else { return false };
        line.split(':').nth(7) == Some("1")
    }

    /// Creates an account with its own group. None if no uid is left.
    pub(super) fn add(&mut self, name: &str, shell: &str) -> Option<Person> {
        let taken = |id: u32| {
            let id = id.to_string();
            self.passwd.iter().chain(&self.group).any(|line| line.split(':').nth(2) == Some(&id))
        };
        // An existing group with the same name is used, as the image intends.
        let own = find(&self.group, name).and_then(|line| line.split(':').nth(2)?.parse::<u32>().ok());
        let is_uid = |id: u32| self.passwd.iter().any(|line| line.split(':').nth(2) == Some(&id.to_string()));
        // The group may be left from an interrupted attempt: use the same number, or the home folder would have the wrong owner.
        let same = own.filter(|id| (FIRST..=LAST).contains(id) && !is_uid(*id));
        let uid = same.or_else(|| (FIRST..=LAST).find(|id| !taken(*id)))?;
        let gid = own.unwrap_or(uid);
        let home = format!("/home/{name}");
        insert(&mut self.passwd, format!("{name}:x:{uid}:{gid}::{home}:{shell}"));
        if let Some(shadow) = &mut self.shadow {
            shadow.retain(|line| key(line) != name);
            insert(shadow, format!("{name}:{NO_PASSWORD}::0:99999:7:::"));
        }
        if own.is_none() {
            insert(&mut self.group, format!("{name}:x:{gid}:"));
            if let Some(gshadow) = &mut self.gshadow {
                gshadow.retain(|line| key(line) != name);
                insert(gshadow, format!("{name}:!::"));
            }
        }
        Some(Person { uid, gid, home, shell: shell.to_owned() })
    }

    pub(super) fn set_shell(&mut self, name: &str, shell: &str) {
        set(&mut self.passwd, name, 6, shell);
    }

    /// Makes a user a member of exactly these groups.
    pub(super) fn set_groups(&mut self, name: &str, groups: &[String]) {
        for lines in [Some(&mut self.group), self.gshadow.as_mut()].into_iter().flatten() {
            for line in lines {
                let wanted = groups.iter().any(|group| group == key(line));
                let mut fields: Vec<&str> = line.split(':').collect();
                let Some(members) = fields.get_mut(3) else { continue };
                let mut all: Vec<&str> = members.split(',').filter(|one| !one.is_empty()).collect();
                if all.contains(&name) == wanted {
                    continue;
                }
                all.retain(|one| *one != name);
                if wanted {
                    all.push(name);
                }
                let joined = all.join(",");
                *members = &joined;
                *line = fields.join(":");
            }
        }
    }

    /// Disables an account, by an expiry date in 1970, or enables it again.
    pub(super) fn set_retired(&mut self, name: &str, retired: bool) {
        if self.is_retired(name) == retired {
            return;
        }
        if let Some(shadow) = &mut self.shadow {
            set(shadow, name, 7, if retired { "1" } else { "" });
        }
    }
}

fn key(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

fn find<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    lines.iter().find(|line| key(line) == name && line.contains(':')).map(String::as_str)
}

fn set(lines: &mut [String], name: &str, field: usize, value: &str) {
    let Some(line) = lines.iter_mut().find(|line| key(line) == name) else { return };
    let mut fields: Vec<&str> = line.split(':').collect();
    if let Some(there) = fields.get_mut(field) {
        *there = value;
        *line = fields.join(":");
    }
}

/// Inserts a line before the first `+` line, which belongs to NIS.
fn insert(lines: &mut Vec<String>, line: String) {
    let at = lines.iter().position(|line| line.starts_with('+')).unwrap_or(lines.len());
    lines.insert(at, line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn lists() -> Lists {
        Lists {
            passwd: lines("root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n+::::::"),
            group: lines("root:x:0:\nsudo:x:27:ann\ndocker:x:999:\nann:x:1000:\nlegacy:x:1001:"),
            shadow: Some(lines("root:*:19000:0:99999:7:::\nann:!:19000:0:99999:7:::")),
            gshadow: Some(lines("root:*::\nsudo:*::ann\ndocker:!::\nann:!::")),
        }
    }

    #[test]
    fn new_account_gets_an_unused_number() {
        let mut all = lists();
        let bob = all.add("bob", "/bin/bash").expect("a number");
        assert_eq!((bob.uid, bob.gid), (1002, 1002));
        assert_eq!(all.passwd[2], "bob:x:1002:1002::/home/bob:/bin/bash");
        assert_eq!(all.passwd[3], "+::::::", "the NIS line stays last");
        assert_eq!(all.shadow.expect("shadow")[2], "bob:*::0:99999:7:::");
        let legacy = lists().add("legacy", "/bin/sh").expect("a number");
        assert_eq!((legacy.uid, legacy.gid), (1001, 1001), "the existing group is used");
        let mut all = lists();
        all.passwd.push("other:x:1001:1001::/home/other:/bin/sh".to_owned());
        let legacy = all.add("legacy", "/bin/sh").expect("a number");
        assert_eq!((legacy.uid, legacy.gid), (1002, 1001), "the number is taken");
    }

    #[test]
    fn groups_are_set_without_changing_other_members() {
        let mut all = lists();
        all.set_groups("ann", &["docker".to_owned()]);
        assert_eq!(all.groups_of("ann"), ["docker"]);
        assert_eq!(all.group[1], "sudo:x:27:");
        assert_eq!(all.gshadow.as_ref().expect("gshadow")[2], "docker:!::ann");
        let before = all.clone();
        all.set_groups("ann", &["docker".to_owned()]);
        assert_eq!(all, before);
    }

    #[test]
    fn disabling_and_enabling_keeps_the_password() {
        let mut all = lists();
        all.set_retired("ann", true);
        assert!(all.is_retired("ann"));
        assert_eq!(all.shadow.as_ref().expect("shadow")[1], "ann:!:19000:0:99999:7::1:");
        all.set_retired("ann", false);
        assert_eq!(all, lists());
    }
}
