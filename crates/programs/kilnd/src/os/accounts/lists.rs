//! The four lists of accounts as text. Lines that are not ours stay as they are, to the byte.

use kiln_node_plan::Owner;

/// The first number that people's accounts have; below are those of services.
const FIRST: u32 = 1000;
/// The last one: `UID_MAX` of `login.defs` everywhere.
const LAST: u32 = 60_000;
/// No password fits it, and the account is not locked: sshd lets keys in even where it does not ask PAM, which it would not with `!`.
const NO_PASSWORD: &str = "*";

/// `passwd`, `group`, `shadow` and `gshadow`. A machine may do without the last two.
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

    /// The groups that list a name, sorted.
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

    /// Whether an account may not be used any more.
    pub(super) fn is_retired(&self, name: &str) -> bool {
        let Some(line) = self.shadow.as_deref().and_then(|shadow| find(shadow, name)) else { return false };
        line.split(':').nth(7) == Some("1")
    }

    /// Makes an account with a group of its own. None when there is no number left.
    pub(super) fn add(&mut self, name: &str, shell: &str) -> Option<Person> {
        let taken = |id: u32| {
            let id = id.to_string();
            self.passwd.iter().chain(&self.group).any(|line| line.split(':').nth(2) == Some(&id))
        };
        // A group of that name is its own, as the image meant it.
        let own = find(&self.group, name).and_then(|line| line.split(':').nth(2)?.parse::<u32>().ok());
        let is_uid = |id: u32| self.passwd.iter().any(|line| line.split(':').nth(2) == Some(&id.to_string()));
        // The group may be all that an attempt which was cut off has left: the same number again, or the home would be another's.
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

    /// Lists a name in just these groups.
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

    /// Lets an account be used no more, or again: the day it ended is the first of 1970.
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

/// Adds a line. What stands behind a line with `+` is another name service's.
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
    fn a_new_account_gets_a_number_that_neither_a_user_nor_a_group_has() {
        let mut all = lists();
        let bob = all.add("bob", "/bin/bash").expect("a number");
        assert_eq!((bob.uid, bob.gid), (1002, 1002));
        assert_eq!(all.passwd[2], "bob:x:1002:1002::/home/bob:/bin/bash");
        assert_eq!(all.passwd[3], "+::::::", "the line of another name service stays last");
        assert_eq!(all.shadow.expect("shadow")[2], "bob:*::0:99999:7:::");
        let legacy = lists().add("legacy", "/bin/sh").expect("a number");
        assert_eq!((legacy.uid, legacy.gid), (1001, 1001), "a group of that name is its own");
        let mut all = lists();
        all.passwd.push("other:x:1001:1001::/home/other:/bin/sh".to_owned());
        let legacy = all.add("legacy", "/bin/sh").expect("a number");
        assert_eq!((legacy.uid, legacy.gid), (1002, 1001), "the number is another's");
    }

    #[test]
    fn groups_are_just_those_and_nobody_else_is_touched() {
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
    fn an_account_retires_and_comes_back_with_its_password_as_it_was() {
        let mut all = lists();
        all.set_retired("ann", true);
        assert!(all.is_retired("ann"));
        assert_eq!(all.shadow.as_ref().expect("shadow")[1], "ann:!:19000:0:99999:7::1:");
        all.set_retired("ann", false);
        assert_eq!(all, lists());
    }
}
