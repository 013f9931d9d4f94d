//! Files of a Go module that is only read: fetched by `go mod download`, held against its sum, copied.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::Failed;
use super::go::sealed;

/// Which files.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoFiles {
    /// The module with its version: `example.org/module@v1.2.3`.
    pub(super) module: &'static str,
    /// Its sum, as `go.sum` writes it.
    pub(super) sum: &'static str,
    /// The folder inside the module.
    pub(super) from: &'static str,
    /// The folder of the part that they go to.
    pub(super) to: &'static str,
}

/// Copies the files into the part's folder.
pub(super) fn make(files: &GoFiles, go: &Path, folder: &Path) -> Result<(), Failed> {
    let line = format!("go mod download -json {}", files.module);
    let mut command = sealed(go, folder);
    command.args(["mod", "download", "-json", files.module]).stdin(Stdio::null());
    let output = command.output().map_err(|source| Failed::Command { line: line.clone(), source })?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let source = checked(&answer, files).map_err(|problem| {
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

/// The module's folder, if it is the module that was meant.
fn checked<'a>(answer: &'a Value, files: &GoFiles) -> Result<&'a str, String> {
    if let Some(error) = answer["Error"].as_str() {
        return Err(error.to_owned());
    }
    match (answer["Dir"].as_str(), answer["Sum"].as_str()) {
        (Some(folder), Some(sum)) if sum == files.sum => Ok(folder),
        (_, Some(sum)) => Err(format!("its sum is {sum}, not {}", files.sum)),
        _ => Err("it names no folder and no sum".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILES: GoFiles = GoFiles { module: "m@v1.0.0", sum: "h1:good=", from: "crds", to: "crds" };

    #[test]
    fn a_module_with_another_sum_is_refused() {
        assert_eq!(checked(&json!({"Dir": "/m", "Sum": "h1:good="}), &FILES), Ok("/m"));
        let message = checked(&json!({"Dir": "/m", "Sum": "h1:bad="}), &FILES).unwrap_err();
        assert_eq!(message, "its sum is h1:bad=, not h1:good=");
        let refused = json!({"Sum": "h1:good=", "Error": "403 Forbidden"});
        assert_eq!(checked(&refused, &FILES), Err("403 Forbidden".to_owned()));
    }
}
