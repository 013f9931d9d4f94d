//! Debian packages: an `ar` archive with three members. The bytes do not depend on the machine or the time.

use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::layer::{Entry, layer};
use crate::{Architecture, Error};

/// The content and description of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deb {
    pub name: String,
    pub version: String,
    pub architecture: Architecture,
    /// One line.
    pub description: String,
    /// Files below `etc` are configuration files: an upgrade keeps the user's changes.
    pub files: Vec<Entry>,
    /// Symbolic links: path and target.
    pub links: Vec<(String, String)>,
}

/// The package's bytes. Packages have no scripts: unpacking is the whole installation.
pub fn deb(package: &Deb) -> Result<Vec<u8>, Error> {
    let mut control = vec![entry("control", describe(package))];
    let configuration: Vec<String> = package
        .files
        .iter()
        .filter(|file| file.path.starts_with("etc/"))
        .map(|file| format!("/{}\n", file.path))
        .collect();
    if !configuration.is_empty() {
        control.push(entry("conffiles", configuration.concat()));
    }
    let data = append_links(layer(&package.files)?, &package.links)?;
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip("control.tar.gz", &layer(&control)?)?),
        ("data.tar.gz", gzip("data.tar.gz", &data)?),
    ];
    let mut archive = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, content.len());
        archive.extend(header.as_bytes());
        archive.extend(&content);
        if content.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}

fn entry(path: &str, content: String) -> Entry {
    Entry { path: path.to_owned(), mode: 0o644, content: content.into_bytes() }
}

fn describe(package: &Deb) -> String {
    let size: usize = package.files.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: kiln\nInstalled-Size: {size}\nSection: admin\nPriority: optional\n\
         Description: {}\n",
        package.name,
        package.version,
        package.architecture.name(),
        package.description
    )
}

/// Appends links to an archive. dpkg creates missing parent folders.
fn append_links(archive: Vec<u8>, links: &[(String, String)]) -> Result<Vec<u8>, Error> {
    // Readers stop at the two blocks of zeros at the end of an archive, so the links replace them.
    let end = archive.len() - archive.iter().rev().take_while(|byte| **byte == 0).count();
    let mut blocks = archive;
    blocks.truncate(end.next_multiple_of(512));
    let mut builder = Builder::new(blocks);
    for (path, target) in links {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        let appended = builder.append_link(&mut header, path, target);
        appended.map_err(|source| Error::Entry { path: path.clone(), source })?;
    }
    builder.into_inner().map_err(|source| Error::Entry { path: "end of archive".to_owned(), source })
}

fn gzip(name: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let packed = |bytes: &[u8]| -> io::Result<Vec<u8>> {
        // No time, name or operating system in the header.
        let mut writer = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
        writer.write_all(bytes)?;
        writer.finish()
    };
    packed(bytes).map_err(|source| Error::Entry { path: name.to_owned(), source })
}
