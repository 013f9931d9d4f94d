//! Secrets on the donor's disk, and how a clone treats them.

use std::fmt;

use kiln_node_plan::{IDENTITY, Treatment};
use kiln_types::{Inspection, JoinCredential, JoinMode, KeepOrDrop, clone_credential};
use serde::Serialize;

/// How a clone treats a secret of its donor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CloneTreatment {
    /// Every clone has it.
    Cloned,
    /// A clone removes or replaces it at first boot. Until then it is in the image.
    ResetAtFirstBoot,
    /// Clones remove it at first boot and get their own from this source outside of the image.
    FromOutside(String),
    /// A clone could not join with it, so the run is refused.
    Refused(String),
}

/// A secret on the donor's disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClonedSecret {
    /// A path, or a description.
    pub location: String,
    pub kind: String,
    pub treatment: CloneTreatment,
}

/// Lists the secrets of a donor, starting with its join credential.
pub fn cloned_secrets(inspection: &Inspection, join: Option<JoinMode>) -> Vec<ClonedSecret> {
    let credential = &inspection.join_credential;
    let treatment = match clone_credential(credential) {
        Ok(KeepOrDrop::Keep) => CloneTreatment::Cloned,
        Ok(KeepOrDrop::KeepDroppingCache) => CloneTreatment::ResetAtFirstBoot,
        Ok(KeepOrDrop::Drop { renewed_by }) => CloneTreatment::FromOutside(renewed_by),
        Err(_) if join == Some(JoinMode::Recipe) => CloneTreatment::FromOutside("the pool's recipe".to_owned()),
        Err(why) => CloneTreatment::Refused(why.to_string()),
    };
    let (location, kind) = match credential {
        JoinCredential::StaticClientCertificate { path } => {
            (path.clone(), "join credential: shared client certificate")
        }
        JoinCredential::BootstrapToken { token_id, .. } => {
            (format!("token `{token_id}`"), "join credential: bootstrap token")
        }
        JoinCredential::NodeCertificate { path } => (path.clone(), "join credential: certificate of this node"),
        JoinCredential::ExecPlugin { command } => {
            (command.clone(), "join credential: exec plugin, with a cached certificate")
        }
        JoinCredential::Unknown { .. } => ("unknown".to_owned(), "join credential"),
    };
    let mut all = vec![ClonedSecret { location, kind: kind.to_owned(), treatment }];
    if inspection.custom_data.present() {
        all.push(ClonedSecret {
            location: "the donor's custom data".to_owned(),
            kind: format!("custom data of {} bytes", inspection.custom_data.size()),
            // The identity list includes the paths where agents store it.
            treatment: CloneTreatment::ResetAtFirstBoot,
        });
    }
    all.extend(inspection.secrets.iter().map(|secret| ClonedSecret {
        location: secret.path.clone(),
        kind: secret.kind.clone(),
        treatment: if is_reset(&secret.path) { CloneTreatment::ResetAtFirstBoot } else { CloneTreatment::Cloned },
    }));
    all
}

/// Whether the identity list removes a path from clones.
fn is_reset(path: &str) -> bool {
    let gone = IDENTITY.iter().filter(|item| matches!(item.treatment, Treatment::Remove | Treatment::Reset));
    gone.flat_map(|item| item.paths).any(|pattern| lies_under(path, pattern))
}

/// Whether a path matches a pattern, or is below a match.
fn lies_under(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| matches_part(part, wanted)))
}

/// `*` matches any characters.
fn matches_part(part: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return part == pattern };
    let Some(left) = part.strip_prefix(first) else { return false };
    (0..=left.len()).filter_map(|at| left.get(at..)).any(|left| matches_part(left, rest))
}

impl fmt::Display for CloneTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cloned => f.write_str("every clone has it"),
            Self::ResetAtFirstBoot => f.write_str("in the image; a clone removes it at first boot"),
            Self::FromOutside(source) => write!(f, "not used by clones: each gets its own from {source}"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

impl fmt::Display for ClonedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.location, self.kind, self.treatment)
    }
}

#[cfg(test)]
mod tests {
    use kiln_types::SecretPlace;

    use super::*;
    use crate::sample::inspection;

    fn treatment_of(path: &str) -> CloneTreatment {
        let mut inspection = inspection();
        inspection.secrets = vec![SecretPlace { path: path.into(), kind: "key".into() }];
        cloned_secrets(&inspection, None).pop().unwrap().treatment
    }

    #[test]
    fn secrets_in_the_identity_list_are_not_cloned() {
        assert_eq!(treatment_of("/etc/ssh/ssh_host_rsa_key"), CloneTreatment::ResetAtFirstBoot);
        assert_eq!(treatment_of("/var/lib/kubelet/pki/kubelet-client-current.pem"), CloneTreatment::ResetAtFirstBoot);
        assert_eq!(treatment_of("/etc/kubernetes/azure.json"), CloneTreatment::Cloned);
        assert_eq!(treatment_of("/etc/ssh/my_key"), CloneTreatment::Cloned);
    }

    #[test]
    fn pattern_matches_paths_below_it_only() {
        assert!(lies_under("/home/a/.ssh/authorized_keys", "/home/*/.ssh"));
        assert!(!lies_under("/home/a", "/home/*/.ssh"));
        assert!(
            matches_part("ssh_host_rsa_key", "ssh_host_*_key")
                && !matches_part("ssh_host_rsa_key.pub", "ssh_host_*_key")
        );
        assert!(!lies_under("/etc/machine-id2", "/etc/machine-id"));
    }

    #[test]
    fn join_credential_is_treated_by_its_kind() {
        let mut inspection = inspection();
        assert_eq!(cloned_secrets(&inspection, None)[0].treatment, CloneTreatment::Cloned);
        inspection.join_credential =
            JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: Some("renewer".into()) };
        let text = cloned_secrets(&inspection, None)[0].to_string();
        assert_eq!(
            text,
            "token `abcdef` (join credential: bootstrap token): not used by clones: each gets its own from renewer"
        );
        inspection.join_credential = JoinCredential::Unknown { why: "no kubeconfig".into() };
        assert!(matches!(cloned_secrets(&inspection, None)[0].treatment, CloneTreatment::Refused(_)));
        inspection.join_credential = JoinCredential::NodeCertificate { path: "/etc/kubernetes/kubelet.conf".into() };
        let text = cloned_secrets(&inspection, Some(JoinMode::Recipe))[0].to_string();
        assert!(text.ends_with("not used by clones: each gets its own from the pool's recipe"), "{text}");
    }

    #[test]
    fn custom_data_is_listed_by_size_and_never_shown() {
        let all = cloned_secrets(&inspection(), None);
        let text = format!("{} {all:?} {}", all[1], serde_json::to_string(&all).unwrap());
        assert!(text.contains("14 bytes") && !text.contains("#cloud-config"), "{text}");
    }
}
