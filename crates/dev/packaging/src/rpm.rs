//! RPM packages: a lead, a signature header with digests, a header that describes the files, and their compressed cpio archive. The bytes do
//! not depend on the machine or the time.
//!
//! File contexts of `SELinux` are not part of an RPM: rpm labels files by the policy of the machine when it installs them.

mod cpio;
mod header;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::gzip::gzip;
use crate::{Architecture, Digest, Error, Package};
use cpio::Member;
use header::{Header, Value};

/// The release of the packaging of one version.
const RELEASE: &str = "1";
/// SHA-256, as numbered by `OpenPGP`.
const SHA256: u32 = 8;
/// `%config(noreplace)`: an upgrade keeps the user's changes.
const CONFIG_NOREPLACE: u32 = 1 | 1 << 4;
/// All attributes of a file are verified.
const VERIFY_ALL: u32 = u32::MAX;
/// Folders that every system has; the package does not own them.
const SHARED: [&str; 7] = ["etc", "usr", "usr/bin", "usr/lib", "usr/share", "usr/share/doc", "usr/share/man"];

/// Relations of requirements.
const LESS_OR_EQUAL: u32 = 0x2 | 0x8;
const EQUAL: u32 = 0x8;
/// A feature of rpm itself.
const RPMLIB: u32 = 1 << 24;
/// The interpreter of a scriptlet.
const INTERPRETER: u32 = 1 << 8;
const PREUN: u32 = 1 << 11;
const POSTTRANS: u32 = 1 << 5;

impl Architecture {
    /// The name that RPM uses, which is Rust's.
    fn rpm(self) -> &'static str {
        self.rust()
    }

    /// The number in the lead, which rpm only reads for old packages.
    fn lead(self) -> u16 {
        match self {
            Self::Amd64 => 1,
            Self::Arm64 => 19,
        }
    }
}

/// The file name that `rpmbuild` would choose.
pub fn rpm_file_name(package: &Package) -> String {
    format!("{}.{}.rpm", full_name(package), package.architecture.rpm())
}

fn full_name(package: &Package) -> String {
    format!("{}-{}-{RELEASE}", package.name, package.version)
}

/// The bytes of the RPM.
pub fn rpm(package: &Package) -> Result<Vec<u8>, Error> {
    let members = members(package)?;
    let archive = cpio::archive(&members);
    let payload = gzip("payload", &archive)?;
    let header = describe(package, &members, &payload).to_bytes(header::IMMUTABLE);
    let mut signature = Header::default();
    signature.insert(273, Value::Text(Digest::compute(&header).hex()));
    signature.insert(1000, Value::Numbers(vec![number(header.len() + payload.len())]));
    signature.insert(1007, Value::Numbers(vec![number(archive.len())]));
    let mut bytes = lead(package);
    bytes.extend(signature.to_bytes(header::SIGNATURES));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(header);
    bytes.extend(payload);
    Ok(bytes)
}

fn lead(package: &Package) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0];
    lead.extend(package.architecture.lead().to_be_bytes());
    let mut name = full_name(package).into_bytes();
    name.resize(66, 0);
    // The last byte stays zero.
    name[65] = 0;
    lead.extend(name);
    // Linux, and a signature header.
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

/// Files, links and the folders that only this package has, sorted by path.
fn members(package: &Package) -> Result<Vec<Member>, Error> {
    let mut members = BTreeMap::new();
    let mut folders = BTreeSet::new();
    let mut add = |path: &str, member: Member| {
        let parents = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        folders.extend(parents.filter(|parent| !parent.is_empty() && !SHARED.contains(parent)).map(str::to_owned));
        match members.insert(path.to_owned(), member) {
            None => Ok(()),
            Some(_) => Err(Error::Path(path.to_owned())),
        }
    };
    for file in &package.files {
        add(&file.path, Member::file(&file.path, file.mode, file.content.clone()))?;
    }
    for (path, target) in &package.links {
        add(path, Member::link(path, target))?;
    }
    for folder in folders {
        members.insert(folder.clone(), Member::folder(&folder));
    }
    Ok(members.into_values().collect())
}

fn describe(package: &Package, members: &[Member], payload: &[u8]) -> Header {
    let text = |value: &str| Value::Text(value.to_owned());
    let texts = |values: Vec<String>| Value::Texts(values);
    let numbers = |of: &dyn Fn(&Member) -> u32| Value::Numbers(members.iter().map(of).collect());
    let strings = |of: &dyn Fn(&Member) -> String| Value::Texts(members.iter().map(of).collect());
    let mut header = Header::default();
    let size: usize = members.iter().map(|member| member.content.len()).sum();
    let version = format!("{}-{RELEASE}", package.version);
    for (tag, value) in [
        (100, texts(vec!["C".to_owned()])),
        (1000, text(&package.name)),
        (1001, text(&package.version)),
        (1002, text(RELEASE)),
        (1004, Value::Translated(package.description.clone())),
        (1005, Value::Translated(package.description.clone())),
        (1006, Value::Numbers(vec![0])),
        (1009, Value::Numbers(vec![number(size)])),
        (1014, text("Apache-2.0")),
        (1016, Value::Translated("System Environment/Base".to_owned())),
        (1021, text("linux")),
        (1022, text(package.architecture.rpm())),
        (1028, numbers(&|member| number(member.content.len()))),
        (1030, Value::Shorts(members.iter().map(Member::mode_bits).collect())),
        (1033, Value::Shorts(members.iter().map(|_| 0).collect())),
        (1034, numbers(&|_| 0)),
        (1035, strings(&Member::digest)),
        (1036, strings(&Member::link_target)),
        (1037, numbers(&|member| if member.is_configuration() { CONFIG_NOREPLACE } else { 0 })),
        (1039, strings(&|_| "root".to_owned())),
        (1040, strings(&|_| "root".to_owned())),
        // Its presence marks a binary package.
        (1044, text(&format!("{}.src.rpm", full_name(package)))),
        (1045, numbers(&|_| VERIFY_ALL)),
        (1047, texts(vec![package.name.clone()])),
        (1064, text("4.14.0")),
        (1095, numbers(&|_| 1)),
        (1096, Value::Numbers((1..=number(members.len())).collect())),
        (1097, strings(&|_| String::new())),
        (1112, Value::Numbers(vec![EQUAL])),
        (1113, texts(vec![version])),
        (1124, text("cpio")),
        (1125, text("gzip")),
        (1126, text("9")),
        (5011, Value::Numbers(vec![SHA256])),
        (5092, texts(vec![Digest::compute(payload).hex()])),
        (5093, Value::Numbers(vec![SHA256])),
    ] {
        header.insert(tag, value);
    }
    add_names(&mut header, members);
    add_scripts(&mut header, package);
    header
}

/// Paths as folders, indexes of folders, and names.
fn add_names(header: &mut Header, members: &[Member]) {
    let (mut folders, mut indexes, mut names): (Vec<String>, Vec<u32>, Vec<String>) = Default::default();
    for member in members {
        let (folder, name) = member.path.rsplit_once('/').map_or(("", member.path.as_str()), |parts| parts);
        let folder = if folder.is_empty() { "/".to_owned() } else { format!("/{folder}/") };
        let index = folders.iter().position(|known| *known == folder).unwrap_or_else(|| {
            folders.push(folder);
            folders.len() - 1
        });
        indexes.push(number(index));
        names.push(name.to_owned());
    }
    header.insert(1116, Value::Numbers(indexes));
    header.insert(1117, Value::Texts(names));
    header.insert(1118, Value::Texts(folders));
}

/// Scriptlets with their interpreter, and what the package requires.
fn add_scripts(header: &mut Header, package: &Package) {
    let feature = |name: &str, version: &str| (format!("rpmlib({name})"), RPMLIB | LESS_OR_EQUAL, version.to_owned());
    let mut requirements = vec![
        feature("CompressedFileNames", "3.0.4-1"),
        feature("FileDigests", "4.6.0-1"),
        feature("PayloadFilesHavePrefix", "4.0-1"),
    ];
    let scripts = package.scripts;
    for (script, tag, interpreter, when) in
        [(scripts.rpm_preun, 1025, 1087, PREUN), (scripts.rpm_posttrans, 1152, 1154, POSTTRANS)]
    {
        if !script.is_empty() {
            header.insert(tag, Value::Text(script.to_owned()));
            header.insert(interpreter, Value::Text("/bin/sh".to_owned()));
            requirements.push(("/bin/sh".to_owned(), INTERPRETER | when, String::new()));
        }
    }
    requirements.sort();
    header.insert(1048, Value::Numbers(requirements.iter().map(|one| one.1).collect()));
    header.insert(1049, Value::Texts(requirements.iter().map(|one| one.0.clone()).collect()));
    header.insert(1050, Value::Texts(requirements.iter().map(|one| one.2.clone()).collect()));
}

/// Packages are far below the limit of 4 GiB.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
