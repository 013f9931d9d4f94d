//! Resolves user and group names with the files of the root: a static binary has no NSS, and `--root` may be another machine.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use kiln_node_plan::Owner;
use rustix::process::{getegid, geteuid};

use crate::os::error::Error;
use crate::os::root::Root;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// A user and a group by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
}

/// Users and groups of a root. The files are read on first use.
#[derive(Debug)]
pub struct Owners<'r> {
    root: &'r Root,
    users: OnceCell<BTreeMap<String, u32>>,
    groups: OnceCell<BTreeMap<String, u32>>,
    /// Without root privileges all files belong to the current user.
    current_user: Option<Ids>,
}

impl<'r> Owners<'r> {
    /// The users and groups of a root. Without files only `root` is known.
    pub fn new(root: &'r Root) -> Self {
        let current_user = || Ids { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        let current_user = (!root.is_host() && !geteuid().is_root()).then(current_user);
        Self { root, users: OnceCell::new(), groups: OnceCell::new(), current_user }
    }

    /// Resolves an owner. Numbers are used as they are.
    pub fn ids(&self, path: &str, owner: &Owner) -> Result<Ids, Error> {
        if let Some(ids) = self.current_user {
            return Ok(ids);
        }
        let find = |kind, name: &str, known: &OnceCell<BTreeMap<String, u32>>, list| {
            let number = self.number(name, known, list)?;
            number.ok_or_else(|| Error::Owner { path: path.to_owned(), kind, name: name.to_owned(), list })
        };
        Ok(Ids {
            uid: find("user", &owner.user, &self.users, PASSWD)?,
            gid: find("group", &owner.group, &self.groups, GROUP)?,
        })
    }

    fn number(&self, name: &str, known: &OnceCell<BTreeMap<String, u32>>, list: &str) -> Result<Option<u32>, Error> {
        if name == "root" {
            return Ok(Some(0));
        }
        if let Ok(number) = name.parse() {
            return Ok(Some(number));
        }
        if known.get().is_none() {
            let _ = known.set(numbers(self.root, list)?);
        }
        Ok(known.get().and_then(|known| known.get(name).copied()))
    }
}

fn numbers(root: &Root, path: &str) -> Result<BTreeMap<String, u32>, Error> {
    let text = root.read_if_exists(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
            // The first line of a name wins, as in the C library.
            all.entry(name.to_owned()).or_insert(id);
        }
    }
    Ok(all)
}
