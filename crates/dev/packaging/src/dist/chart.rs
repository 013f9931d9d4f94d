//! The packaged Helm chart, as `helm package` writes it, but with the epoch as time and sorted files.

use std::fs;
use std::path::Path;

use crate::gzip::gzip;
use crate::layer::{Entry, layer};
use crate::package::tree;
use crate::{Error, package};

/// The archive of a chart's folder. The versions in `Chart.yaml` must be that of the release.
pub fn package(folder: &Path, version: &str) -> Result<Vec<u8>, Error> {
    let manifest = folder.join("Chart.yaml");
    let text = fs::read_to_string(&manifest).map_err(Error::file(&manifest))?;
    for field in ["version", "appVersion"] {
        let line = format!("{field}: {version}");
        if !text.lines().any(|known| known == line) {
            return Err(Error::ChartVersion { path: manifest, line });
        }
    }
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("kiln");
    let mut entries = Vec::new();
    for path in tree(folder)? {
        let below = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        if !is_ignored(&below) {
            entries.push(Entry { path: format!("{name}/{below}"), mode: 0o644, content: package::read(&path)? });
        }
    }
    gzip("chart", &layer(&entries)?)
}

/// The patterns of `.helmignore`.
fn is_ignored(path: &str) -> bool {
    path.starts_with(".git/") || Path::new(path).extension().is_some_and(|end| end == "swp") || path.ends_with('~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../charts/kiln")
    }

    #[test]
    fn ignored_files_are_those_of_helmignore() {
        let patterns = fs::read_to_string(chart().join(".helmignore")).expect("a file");
        assert_eq!(patterns, ".git/\n*.swp\n*~\n", "change `is_ignored` too");
        assert!(is_ignored(".git/x") && is_ignored("a.swp") && is_ignored("a~") && !is_ignored("values.yaml"));
    }

    #[test]
    fn chart_with_another_version_is_rejected() {
        assert!(package(&chart(), env!("CARGO_PKG_VERSION")).is_ok());
        let error = package(&chart(), "9.9.9").expect_err("rejected").to_string();
        assert!(error.contains("`version: 9.9.9`"), "{error}");
    }
}
