//! Reading of files that the user names.

use std::path::Path;

use kiln_bootstrap::Document;

use crate::failure::Failure;

/// Size limit. Settings files have kilobytes, and objects of a cluster at most 1.5 MB.
const MAX_SIZE: u64 = 16 << 20;

/// Reads a file as UTF-8; `-` is standard input.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let bytes = bytes(path)?;
    String::from_utf8(bytes)
        .map_err(|error| Failure::file(path, format_args!("byte {} is not UTF-8", error.utf8_error().valid_up_to())))
}

/// Reads a file; `-` is standard input.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_SIZE + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_SIZE + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::file(path, error))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(Failure::file(path, format_args!("the file is larger than {} MiB", MAX_SIZE >> 20)));
    }
    Ok(bytes)
}

/// Reads a YAML or JSON file.
pub(super) fn document(path: &Path) -> Result<Document, Failure> {
    Document::read(&path.display().to_string(), &text(path)?).map_err(Failure::input)
}
