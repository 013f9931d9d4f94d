//! Identity that only its owner knows: an agent's id, named by a file of the image.

use serde::{Deserialize, Serialize};

use crate::identity::{IDENTITY, Treatment, overlap};

/// Where drop-ins are, one JSON file per item.
pub const DROP_IN_FOLDER: &str = "/etc/kiln/seal.d";

/// One more item of the identity list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DropIn {
    /// What it is called.
    pub name: String,
    /// Files and folders; `*` stands for any run of characters but `/`.
    pub paths: Vec<String>,
    /// What becomes of it. An agent makes its id anew by itself, so it is removed unless the file says otherwise.
    #[serde(default = "removed")]
    pub treatment: Treatment,
    pub why: String,
}

fn removed() -> Treatment {
    Treatment::Remove
}

/// A drop-in that is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BadDropIn {
    /// It is no JSON of the right shape.
    #[error("{file}: {source}")]
    Syntax {
        file: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It names nothing or does not say why.
    #[error("{file}: `{field}` is empty")]
    Empty {
        file: String,
        /// The empty field.
        field: &'static str,
    },
    /// A path that could mean anything.
    #[error("{file}: `{path}` must be absolute, without `..`, and below a folder of the root")]
    Path { file: String, path: String },
    /// It would take away what the list treats otherwise.
    #[error("{file}: `{path}` is a matter of the item `{item}`")]
    Overlaps {
        file: String,
        path: String,
        /// The item of the list that has it.
        item: &'static str,
    },
}

impl DropIn {
    /// Reads a drop-in. What it names may lie neither in nor over anything of the list.
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
        for path in &item.paths {
            // Two components at least: nobody's id is all of `/etc`.
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
    fn an_agents_id_is_removed_unless_its_file_says_otherwise() {
        let text = r#"{"name": "falcon", "paths": ["/opt/CrowdStrike/falconstore"], "why": "one host per agent id"}"#;
        let item = DropIn::parse("falcon.json", text).expect("a drop-in");
        assert_eq!(item.treatment, Treatment::Remove);
    }

    #[test]
    fn a_drop_in_cannot_reach_what_the_list_decides() {
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
    fn a_drop_in_must_say_what_and_why() {
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
