//! Custom data for cloud-init: a MIME message with several parts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::shell::quote;
use crate::{Secret, to_base64};

/// Boundary between the parts. It is fixed, so that the same parts give the same bytes; a part that contains it is rejected.
pub const BOUNDARY: &str = "==kiln=custom=data=boundary==";

/// One part of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// For example `text/cloud-boothook`, `text/cloud-config` or `text/x-shellscript`.
    pub content_type: &'static str,
    pub body: Secret,
}

/// Parts that cannot be combined into a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    #[error("part {index} ({content_type}) contains the boundary between parts")]
    Boundary {
        /// Starts at 0.
        index: usize,
        content_type: &'static str,
    },
    #[error("invalid feature name `{0}`; expected letters, digits and underscores, not starting with a digit")]
    FeatureName(String),
    #[error("the value of feature `{0}` has more than one line")]
    FeatureValue(String),
}

/// Combines parts into a message, without base64 encoding.
pub fn multipart(parts: &[Part]) -> Result<Secret, PartError> {
    let mut out = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for (index, part) in parts.iter().enumerate() {
        if part.body.expose().contains(BOUNDARY) {
            return Err(PartError::Boundary { index, content_type: part.content_type });
        }
        let _ = write!(
            out,
            "--{BOUNDARY}\nContent-Type: {}; charset=\"utf-8\"\n\n{}",
            part.content_type,
            part.body.expose()
        );
        if !part.body.expose().ends_with('\n') {
            out.push('\n');
        }
    }
    let _ = writeln!(out, "--{BOUNDARY}--");
    Ok(Secret::new(out))
}

const FOLDER: &str = "/opt/azure/containers";

/// Renders custom data for images with the AKS node controller. A boot hook writes the configuration and starts the controller in the
/// background, so that it does not wait for cloud-init's later stages.
pub fn node_controller(config: &Secret, features: &BTreeMap<String, String>) -> Result<Secret, PartError> {
    let mut hook = String::from("#!/bin/bash\numask 077\n");
    let _ = writeln!(hook, "mkdir -p {FOLDER}");
    let _ = writeln!(hook, "if [ -x {FOLDER}/provision_preload.sh ]; then {FOLDER}/provision_preload.sh & fi");
    write_file(&mut hook, "aks-node-controller-config.json", config.expose());
    if !features.is_empty() {
        write_file(&mut hook, "enabled_features.sh", &feature_lines(features)?);
    }
    let launcher = format!("{FOLDER}/aks-node-controller-launcher.sh");
    let _ = writeln!(hook, "if [ -x {launcher} ]; then");
    let _ = writeln!(hook, "  nohup {launcher} >/dev/null 2>&1 &");
    hook.push_str("else\n  systemctl start --no-block aks-node-controller.service\nfi\n");
    let message = multipart(&[
        Part { content_type: "text/cloud-boothook", body: Secret::new(hook) },
        Part {
            content_type: "text/cloud-config",
            body: "#cloud-config\nruncmd:\n- [echo, configuration written]\n".into(),
        },
    ])?;
    Ok(Secret::new(to_base64(message.expose())))
}

/// Appends the commands that write a file readable only by root. base64 contains neither quotes nor the boundary.
fn write_file(hook: &mut String, name: &str, content: &str) {
    let path = format!("{FOLDER}/{name}");
    let _ = writeln!(
        hook,
        "echo {} | base64 -d >{path}.new && chmod 0600 {path}.new && mv {path}.new {path}",
        to_base64(content)
    );
}

/// Formats features as `KEY=VALUE` lines. The node parses them without a shell, but a shell would read the same values.
fn feature_lines(features: &BTreeMap<String, String>) -> Result<String, PartError> {
    let mut lines = String::new();
    for (name, value) in features {
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_name || name.is_empty() {
            return Err(PartError::FeatureName(name.clone()));
        }
        if value.contains(['\n', '\r', '\0']) {
            return Err(PartError::FeatureValue(name.clone()));
        }
        let plain = value.chars().all(|c| c.is_ascii_alphanumeric() || "_.:/,-".contains(c));
        let _ = writeln!(lines, "{name}={}", if plain { value.clone() } else { quote(value) });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_base64;

    fn decoded(config: &str, features: &[(&str, &str)]) -> String {
        let features = features.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        String::from_utf8(from_base64(node_controller(&config.into(), &features).unwrap().expose()).unwrap()).unwrap()
    }

    #[test]
    fn same_configuration_gives_the_same_message() {
        assert_eq!(decoded("{}", &[]), decoded("{}", &[]));
        assert!(
            decoded("{}", &[])
                .contains("echo e30= | base64 -d >/opt/azure/containers/aks-node-controller-config.json.new")
        );
    }

    #[test]
    fn feature_file_is_written_only_with_features() {
        assert!(!decoded("{}", &[]).contains("enabled_features"));
        let line = to_base64("A=1\nB='x y'\n");
        assert!(decoded("{}", &[("B", "x y"), ("A", "1")]).contains(&line));
    }

    #[test]
    fn message_contains_the_given_parts() {
        let message = decoded("{}", &[]);
        let parts: Vec<&str> = message.split(&format!("--{BOUNDARY}")).collect();
        assert_eq!(parts.len(), 4);
        assert!(parts[1].contains("text/cloud-boothook") && parts[1].contains("#!/bin/bash"));
        assert!(parts[2].contains("text/cloud-config"));
        assert_eq!(parts[3], "--\n");
    }

    #[test]
    fn boundary_never_changes() {
        // A different boundary changes the custom data, and every machine would differ from its template.
        let message = decoded("{}", &[]);
        assert!(
            message.starts_with(
                "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==kiln=custom=data=boundary==\"\n\n--==kiln=custom=data=boundary==\n"
            ),
            "{message}"
        );
        assert!(message.ends_with("\n--==kiln=custom=data=boundary==--\n"), "{message}");
    }

    #[test]
    fn part_that_contains_the_boundary_is_rejected() {
        let part = Part { content_type: "text/x-shellscript", body: Secret::new(format!("echo --{BOUNDARY}")) };
        assert_eq!(multipart(&[part]), Err(PartError::Boundary { index: 0, content_type: "text/x-shellscript" }));
    }

    #[test]
    fn invalid_features_are_rejected() {
        let one = |name: &str, value: &str| {
            node_controller(&"{}".into(), &BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        assert_eq!(one("A B", "1"), Err(PartError::FeatureName("A B".to_owned())));
        assert_eq!(one("A", "1\nB=2"), Err(PartError::FeatureValue("A".to_owned())));
    }
}
