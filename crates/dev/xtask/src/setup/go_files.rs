//! Copies files of a Go module that is not compiled. `go mod download` fetches the module, and its checksum is compared.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::Failed;
use super::go::isolated;

/// The files to copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoFiles {
    /// `example.org/module@v1.2.3`.
    pub(super) module: &'static str,
    /// The checksum as in `go.sum`.
    pub(super) sum: &'static str,
    /// The folder inside the module.
    pub(super) from: &'static str,
    /// The folder in the installation.
    pub(super) to: &'static str,
}

/// Copies the YAML files into the dependency's folder.
pub(super) fn make(files: &GoFiles, go: &Path, folder: &Path) -> Result<(), Failed> {
    let line = format!("go mod download -json {}", files.module);
    let mut command = isolated(go, folder);
    command.args(["mod", "download", "-json", files.module]).stdin(Stdio::null());
    let output = command.output().map_err(|source| Failed::Command { line: line.clone(), source })?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let source = module_folder(&answer, files).map_err(|problem| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Failed::Module { line, problem: format!("{problem} {}", stderr.trim()).trim().to_owned() }
    })?;
    let source = Path::new(source).join(files.from);
    let target = folder.join(files.to);
    fs::create_dir_all(&target).map_err(|source| Failed::file(&target, source))?;
    let entries = fs::read_dir(&source).map_err(|error| Failed::file(&source, error))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "yaml"))
    {
        let copy = target.join(path.file_name().unwrap_or_default());
        // Not `fs::copy`: the module cache is read-only, and the copy would be too.
        fs::read(&path).and_then(|bytes| fs::write(&copy, bytes)).map_err(|source| Failed::file(&path, source))?;
    }
    Ok(())
}

/// The module's folder, if the checksum is correct.
fn module_folder<'a>(answer: &'a Value, files: &GoFiles) -> Result<&'a str, String> {
    if let Some(error) = answer["Error"].as_str() {
        return Err(error.to_owned());
    }
    match (answer["Dir"].as_str(), answer["Sum"].as_str()) {
        (Some(folder), Some(sum)) if sum == files.sum => Ok(folder),
        (_, Some(sum)) => Err(format!("its checksum is {sum}, expected {}", files.sum)),
        _ => Err("the output has no folder and no checksum".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILES: GoFiles = GoFiles { module: "m@v1.0.0", sum: "h1:good=", from: "crds", to: "crds" };

    #[test]
    fn module_with_another_checksum_is_rejected() {
        assert_eq!(module_folder(&json!({"Dir": "/m", "Sum": "h1:good="}), &FILES), Ok("/m"));
        let message = module_folder(&json!({"Dir": "/m", "Sum": "h1:bad="}), &FILES).unwrap_err();
        assert_eq!(message, "its checksum is h1:bad=, expected h1:good=");
        let refused = json!({"Sum": "h1:good=", "Error": "403 Forbidden"});
        assert_eq!(module_folder(&refused, &FILES), Err("403 Forbidden".to_owned()));
    }
}
