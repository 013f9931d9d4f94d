//! The files of a release. [`files`] is a function of its inputs: the same programs and sources give the same bytes.
//!
//! [`sbom`] lists the crates that are compiled into the programs, [`documents`] are the completions and manual pages, and [`chart`] is the
//! packaged Helm chart.

pub mod chart;
pub mod documents;
pub mod sbom;

use std::path::Path;

use crate::gzip::gzip;
use crate::layer::Entry;
use crate::layout::multi_platform_archive;
use crate::{Architecture, Content, Digest, Error, Image, Package, archive, deb, layer, rpm, rpm_file_name};
use documents::Documents;

/// The file with the checksums of all others, in the format of `sha256sum`.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// The programs for one architecture.
#[derive(Clone, Debug)]
pub struct Programs {
    pub architecture: Architecture,
    pub kiln: Vec<u8>,
    pub kilnd: Vec<u8>,
}

/// Everything that a release is made from, besides the source tree.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub version: String,
    /// The commit, if known.
    pub revision: Option<String>,
    pub programs: Vec<Programs>,
    pub documents: Documents,
    /// JSON in the format of `CycloneDX`.
    pub sbom: String,
}

/// A file of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseFile {
    pub name: String,
    pub bytes: Vec<u8>,
    pub is_executable: bool,
}

/// The files of a release, with the checksums last. `root` is the source tree.
pub fn files(root: &Path, inputs: &Inputs) -> Result<Vec<ReleaseFile>, Error> {
    let version = &inputs.version;
    let file = |name: String, bytes: Vec<u8>| ReleaseFile { name, bytes, is_executable: false };
    let mut files = Vec::new();
    let mut images = Vec::new();
    for Programs { architecture, kiln, kilnd } in &inputs.programs {
        let platform = format!("linux-{}", architecture.name());
        let mut package = Package::kilnd(root, kilnd.clone(), version, *architecture)?;
        let pages = inputs.documents.kilnd.iter().cloned();
        package.files.extend(pages.map(|page| Entry { path: format!("usr/{}", page.path), ..page }));
        let content = Content {
            binary: kiln.clone(),
            node_binary: kilnd.clone(),
            architecture: *architecture,
            version: version.clone(),
            revision: inputs.revision.clone(),
        };
        // Compression takes most of the time, and each archive is compressed on its own.
        let (tarball, image, deb, rpm) = std::thread::scope(|scope| {
            let image = scope.spawn(|| Image::new(&content));
            let packages = scope.spawn(|| (deb(&package), rpm(&package)));
            let tarball = tarball(root, kiln, &inputs.documents);
            let (deb, rpm) = packages.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (tarball, image.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), deb, rpm)
        });
        let image = image?;
        files.push(file(format!("kiln-{version}-{platform}.tar.gz"), tarball?));
        let program = file(format!("kilnd-{version}-{platform}"), kilnd.clone());
        files.push(ReleaseFile { is_executable: true, ..program });
        files.push(file(format!("kilnd_{version}_{}.deb", architecture.name()), deb?));
        files.push(file(rpm_file_name(&package), rpm?));
        files.push(file(format!("kiln-image-{version}-{platform}.tar"), archive(&image)?));
        images.push(image);
    }
    files.push(file(format!("kiln-image-{version}.oci.tar"), multi_platform_archive(&images)?));
    files.push(file(format!("kiln-chart-{version}.tgz"), chart::package(&root.join("charts/kiln"), version)?));
    files.push(file(format!("kiln-{version}.cdx.json"), inputs.sbom.clone().into_bytes()));
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let line = |file: &ReleaseFile| format!("{}  {}\n", Digest::compute(&file.bytes).hex(), file.name);
    let checksums: String = files.iter().map(line).collect();
    files.push(file(CHECKSUMS.to_owned(), checksums.into_bytes()));
    Ok(files)
}

/// kiln with its completions and manual pages.
fn tarball(root: &Path, kiln: &[u8], documents: &Documents) -> Result<Vec<u8>, Error> {
    let licence = Entry::file("share/doc/kiln/copyright", &root.join("LICENSE"))?;
    let mut entries = vec![Entry { path: "bin/kiln".to_owned(), mode: 0o755, content: kiln.to_vec() }, licence];
    entries.extend(documents.kiln.iter().cloned());
    gzip("kiln", &layer(&entries)?)
}
