//! Who has which number, by the files of the root: a static binary has no name service, and `--root` is another machine's.

use std::collections::BTreeMap;

use rustix::process::{getegid, geteuid};

use crate::error::Error;
use crate::root::Root;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// A user and a group by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Users and groups of a root.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
    /// Everything belongs to us: somebody without privilege prepares a folder.
    ours: Option<Ids>,
}

impl Owners {
    /// Reads them. A root without the files knows `root` alone.
    pub fn of(root: &Root) -> Result<Self, Error> {
        let ours =
            (!geteuid().is_root() && !root.is_host()).then(|| Ids { uid: geteuid().as_raw(), gid: getegid().as_raw() });
        Ok(Self { users: numbers(root, PASSWD)?, groups: numbers(root, GROUP)?, ours })
    }

    /// The numbers of a file's owner. Digits stand for themselves.
    pub fn ids(&self, path: &str, user: &str, group: &str) -> Result<Ids, Error> {
        if let Some(ours) = self.ours {
            return Ok(ours);
        }
        let find = |kind, name: &str, known: &BTreeMap<String, u32>, list| {
            known.get(name).copied().or_else(|| name.parse().ok()).ok_or_else(|| Error::Owner {
                path: path.to_owned(),
                kind,
                name: name.to_owned(),
                list,
            })
        };
        Ok(Ids { uid: find("user", user, &self.users, PASSWD)?, gid: find("group", group, &self.groups, GROUP)? })
    }
}

fn numbers(root: &Root, path: &str) -> Result<BTreeMap<String, u32>, Error> {
    let text = root.read_if_there(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut all = BTreeMap::from([("root".to_owned(), 0)]);
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
            // The first line of a name holds, as with the C library.
            all.entry(name.to_owned()).or_insert(id);
        }
    }
    Ok(all)
}
