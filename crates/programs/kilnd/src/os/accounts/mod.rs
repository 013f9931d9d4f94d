//! Login accounts: account files, home folder, SSH keys and sudo. Only files are written; no program is executed.

mod lists;

use std::fs::File;

use kiln_node_plan::selinux::EntryKind;
use kiln_node_plan::{Account, DesiredFile, Owner};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use crate::os::error::Error;
use crate::os::root::write::Durability;
use crate::os::root::{FileKind, Root, split};
use lists::{Lists, Person};

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
const SHADOW: &str = "/etc/shadow";
const GSHADOW: &str = "/etc/gshadow";
/// The lock of all programs that change account files.
const LOCK: &str = "/etc/.pwd.lock";
const SKELETON: &str = "/etc/skel";

impl Root {
    /// The current state of an account; none if it does not exist or is [retired](Self::retire).
    pub fn account(&self, name: &str) -> Result<Option<Account>, Error> {
        let lists = self.lists()?;
        let Some(person) = lists.person(name).filter(|_| !lists.is_retired(name)) else { return Ok(None) };
        let keys = self.read_if_exists(keys_file(&person))?.unwrap_or_default();
        let keys = String::from_utf8_lossy(&keys);
        let keys = keys.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let ssh_keys = keys.map(str::to_owned).collect();
        let sudo = self.read_if_exists(sudoers_file(name))?.is_some_and(|text| text == sudoers(name).as_bytes());
        let groups = lists.groups_of(name);
        Ok(Some(Account { name: name.to_owned(), ssh_keys, groups, shell: person.shell, sudo }))
    }

    /// Creates or changes an account. An existing password stays.
    pub fn set_account(&self, account: &Account, durability: Durability) -> Result<(), Error> {
        let _lock = self.lock_lists()?;
        let (before, name) = (self.lists()?, account.name.as_str());
        if let Some(group) = account.groups.iter().find(|group| !before.has_group(group)) {
            return Err(Error::Owner { path: name.to_owned(), kind: "group", name: group.clone(), list: GROUP });
        }
        let mut lists = before.clone();
        let shell = self.shell_of(account, &lists)?;
        let person = if let Some(person) = lists.person(name) {
            person
        } else {
            let wrong = || Error::Path { path: PASSWD.to_owned(), why: "no uid is left" };
            let person = lists.add(name, &shell).ok_or_else(wrong)?;
            // Before the account files: an account always has its home folder, even if kilnd is interrupted.
            self.make_home(&person, durability)?;
            person
        };
        self.set_keys(&person, &account.ssh_keys, durability)?;
        lists.set_shell(name, &shell);
        lists.set_groups(name, &account.groups);
        lists.set_retired(name, false);
        self.write_lists(&before, &lists, durability)?;
        let (path, text) = (sudoers_file(name), sudoers(name));
        if account.sudo {
            self.write_differing(&[DesiredFile::new(&path, text, 0o440)], durability)
        } else {
            self.remove(&path, durability).map(drop)
        }
    }

    /// Disables an account and deletes its SSH keys and sudo rule. Its files stay.
    pub fn retire(&self, name: &str, durability: Durability) -> Result<(), Error> {
        let _lock = self.lock_lists()?;
        self.remove(sudoers_file(name), durability)?;
        let before = self.lists()?;
        let Some(person) = before.person(name) else { return Ok(()) };
        self.remove(keys_file(&person), durability)?;
        let mut lists = before.clone();
        lists.set_retired(name, true);
        self.write_lists(&before, &lists, durability)
    }

    /// Writes the files that differ.
    pub fn write_differing(&self, files: &[DesiredFile], durability: Durability) -> Result<(), Error> {
        let differing = self.differing(files)?;
        if differing.is_empty() { Ok(()) } else { self.write_all(&differing, durability) }
    }

    fn lists(&self) -> Result<Lists, Error> {
        let read = |path: &str| -> Result<Option<Vec<String>>, Error> {
            let bytes = self.read_if_exists(path)?;
            let lines = |bytes: Vec<u8>| String::from_utf8(bytes).map(|text| text.lines().map(str::to_owned).collect());
            let wrong = |_| Error::Path { path: path.to_owned(), why: "not UTF-8" };
            bytes.map(|bytes| lines(bytes).map_err(wrong)).transpose()
        };
        Ok(Lists {
            passwd: read(PASSWD)?.unwrap_or_default(),
            group: read(GROUP)?.unwrap_or_default(),
            shadow: read(SHADOW)?,
            gshadow: read(GSHADOW)?,
        })
    }

    /// The requested shell, else the current one, else the default of the machine.
    fn shell_of(&self, account: &Account, lists: &Lists) -> Result<String, Error> {
        if !account.shell.is_empty() {
            return Ok(account.shell.clone());
        }
        if let Some(person) = lists.person(&account.name) {
            return Ok(person.shell);
        }
        let default = if self.kind("/bin/bash")?.is_some() { "/bin/bash" } else { "/bin/sh" };
        Ok(default.to_owned())
    }

    /// Writes groups first, so that an account never has a missing group.
    fn write_lists(&self, before: &Lists, after: &Lists, durability: Durability) -> Result<(), Error> {
        let changed = |path, before: &Vec<String>, after: &Vec<String>| {
            (before != after).then(|| (path, after.iter().flat_map(|line| [line, "\n"]).collect::<String>()))
        };
        let optional = |path, before: &Option<Vec<String>>, after: &Option<Vec<String>>| {
            before.as_ref().zip(after.as_ref()).and_then(|(before, after)| changed(path, before, after))
        };
        let files = [
            changed(GROUP, &before.group, &after.group),
            optional(GSHADOW, &before.gshadow, &after.gshadow),
            optional(SHADOW, &before.shadow, &after.shadow),
            changed(PASSWD, &before.passwd, &after.passwd),
        ];
        for (path, text) in files.into_iter().flatten() {
            let stat = self.stat(path)?;
            let (mode, uid, gid) = stat.map_or((0o644, 0, 0), |stat| (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid));
            let file = DesiredFile::new(path, text, mode).owned_by(Owner::from_ids(uid, gid));
            self.write_all(&[file], durability)?;
        }
        Ok(())
    }

    fn make_home(&self, person: &Person, durability: Durability) -> Result<(), Error> {
        if self.kind(&person.home)? == Some(FileKind::File) {
            return Err(Error::Kind { path: person.home.clone(), found: FileKind::File.name(), wanted: "a folder" });
        }
        // Other users must not read the home folder.
        self.make_folder_as(&person.home, 0o750, &person.owner())?;
        let mut copies = Vec::new();
        // A `DesiredFile` has a path that is UTF-8; skeletons with other names do not exist in practice.
        for name in self.text_names(SKELETON)? {
            let from = format!("{SKELETON}/{name}");
            let exists = self.kind(format!("{}/{name}", person.home))?.is_some();
            if self.kind(&from)? == Some(FileKind::File) && !exists {
                let copy = DesiredFile::plain(format!("{}/{name}", person.home), self.read(&from)?);
                copies.push(copy.owned_by(person.owner()));
            }
        }
        self.write_all(&copies, durability)
    }

    fn set_keys(&self, person: &Person, keys: &[String], durability: Durability) -> Result<(), Error> {
        let path = keys_file(person);
        if keys.is_empty() {
            return self.remove(&path, durability).map(drop);
        }
        self.make_folder_as(&format!("{}/.ssh", person.home), 0o700, &person.owner())?;
        let text: String = keys.iter().flat_map(|key| [key, "\n"]).collect();
        self.write_differing(&[DesiredFile::new(path, text, 0o600).owned_by(person.owner())], durability)
    }

    /// Takes the lock as the C library does: a POSIX lock on the whole file.
    fn lock_lists(&self) -> Result<File, Error> {
        let (folder, name) = split(LOCK)?;
        let parent = self.folder(folder, &mut Vec::new())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file =
            rustix::fs::openat(&parent, name, flags, 0o600.into()).map_err(|errno| Error::io("lock", LOCK, errno))?;
        self.label(&file, LOCK, EntryKind::File)?;
        fcntl_lock(&file, FlockOperation::LockExclusive).map_err(|errno| Error::io("lock", LOCK, errno))?;
        Ok(File::from(file))
    }
}

fn keys_file(person: &Person) -> String {
    format!("{}/.ssh/authorized_keys", person.home.trim_end_matches('/'))
}

fn sudoers_file(name: &str) -> String {
    format!("/etc/sudoers.d/90-kiln-{name}")
}

fn sudoers(name: &str) -> String {
    format!("{name} ALL=(ALL) NOPASSWD:ALL\n")
}
