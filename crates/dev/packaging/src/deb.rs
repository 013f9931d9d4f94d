//! Debian packages: an `ar` archive with three members. The bytes do not depend on the machine or the time.

use tar::{Builder, EntryType, Header};

use crate::gzip::gzip;
use crate::layer::{Entry, layer};
use crate::{Error, Package};

/// The bytes of the Debian package.
pub fn deb(package: &Package) -> Result<Vec<u8>, Error> {
    let mut control = vec![entry("control", 0o644, describe(package))];
    let scripts = package.scripts;
    for (name, script) in [("postinst", scripts.postinst), ("prerm", scripts.prerm), ("postrm", scripts.postrm)] {
        if !script.is_empty() {
            control.push(entry(name, 0o755, script.to_owned()));
        }
    }
    let configuration: Vec<String> = package
        .files
        .iter()
        .filter(|file| file.path.starts_with("etc/"))
        .map(|file| format!("/{}\n", file.path))
        .collect();
    if !configuration.is_empty() {
        control.push(entry("conffiles", 0o644, configuration.concat()));
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

fn entry(path: &str, mode: u32, content: String) -> Entry {
    Entry { path: path.to_owned(), mode, content: content.into_bytes() }
}

fn describe(package: &Package) -> String {
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
