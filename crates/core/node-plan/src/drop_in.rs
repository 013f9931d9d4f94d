//! Drop-ins: files of the image that add an agent's id to the identity list.

use serde::{Deserialize, Serialize};

use crate::identity::{IDENTITY, Treatment, overlap};

/// The folder of drop-ins, one JSON file per item.
pub const DROP_IN_FOLDER: &str = "/etc/kiln/seal.d";

/// An additional item of the identity list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DropIn {
    pub name: String,
    /// Files and folders; `*` matches any characters except `/`.
    pub paths: Vec<String>,
    /// Removed by default, because agents create a new id themselves.
    #[serde(default = "removed")]
    pub treatment: Treatment,
    pub why: String,
}

fn removed() -> Treatment {
    Treatment::Remove
}

/// An invalid drop-in.
#[derive(Debug, thiserror::Error)]
pub enum BadDropIn {
    #[error("{file}: {source}")]
    Syntax {
        file: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("{file}: `{field}` is empty")]
    Empty { file: String, field: &'static str },
    #[error("{file}: `{path}` must be absolute, without `..`, and at least two levels deep")]
    Path { file: String, path: String },
    #[error("{file}: only files of the built-in list are edited; expected `remove`, `reset` or `keep`")]
    Edit { file: String },
    #[error("{file}: `{path}` overlaps the item `{item}`")]
    Overlaps { file: String, path: String, item: &'static str },
}

impl DropIn {
    /// Parses a drop-in. Its paths must not overlap the list.
    pub fn parse(file: &str, text: &str) -> Result<Self, BadDropIn> {
        let file = file.to_owned();
        let item: Self = match serde_json::from_str(text) {
            Ok(item) => item,
            Err(source) => return Err(BadDropIn::Syntax { file, source }),
        };
        for (field, empty) in [
            ("name", item.name.trim().is_empty()),
            ("why", item.why.trim().is_empty()),
            ("paths", item.paths.is_empty()),
        ] {
            if empty {
                return Err(BadDropIn::Empty { file, field });
            }
        }
        if item.treatment == Treatment::Edit {
            return Err(BadDropIn::Edit { file });
        }
        for path in &item.paths {
            // At least two components: no id is all of `/etc`.
            let deep =
                path.strip_prefix('/').is_some_and(|rest| rest.split('/').filter(|part| !part.is_empty()).count() >= 2);
            if !deep || path.split('/').any(|part| part == "..") {
                return Err(BadDropIn::Path { file, path: path.clone() });
            }
            if let Some(known) = IDENTITY.iter().find(|known| known.paths.iter().any(|known| overlap(known, path))) {
                return Err(BadDropIn::Overlaps { file, path: path.clone(), item: known.name });
            }
        }
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_treatment_is_remove() {
        let text = r#"{"name": "falcon", "paths": ["/opt/CrowdStrike/falconstore"], "why": "one host per agent id"}"#;
        let item = DropIn::parse("falcon.json", text).expect("a drop-in");
        assert_eq!(item.treatment, Treatment::Remove);
    }

    #[test]
    fn paths_must_not_overlap_the_list() {
        for (path, owner) in [
            ("/var/lib/containerd/io.containerd.content.v1.content/blobs", "container-images"),
            ("/var/lib/dpkg", "packages"),
            ("/etc/machine-id", "machine-id"),
        ] {
            let text = format!(r#"{{"name": "x", "paths": ["{path}"], "why": "y"}}"#);
            let error = DropIn::parse("x.json", &text).expect_err(path).to_string();
            assert!(error.contains("x.json") && error.contains(owner), "{error}");
        }
        // One component of the root, `..` and relative paths.
        for path in ["/etc", "/", "etc/agent/id", "/opt/agent/../../etc/passwd", "/var/lib"] {
            let text = format!(r#"{{"name": "x", "paths": ["{path}"], "why": "y"}}"#);
            assert!(DropIn::parse("x.json", &text).is_err(), "{path}");
        }
    }

    #[test]
    fn name_paths_and_reason_are_required() {
        for text in [
            r#"{"name": "", "paths": ["/opt/a/id"], "why": "y"}"#,
            r#"{"name": "x", "paths": [], "why": "y"}"#,
            r#"{"name": "x", "paths": ["/opt/a/id"], "why": " "}"#,
            r#"{"name": "x", "paths": ["/opt/a/id"]}"#,
            r#"{"name": "x", "paths": ["/opt/a/id"], "why": "y", "treatmnt": "keep"}"#,
        ] {
            assert!(DropIn::parse("x.json", text).is_err(), "{text}");
        }
    }
}
