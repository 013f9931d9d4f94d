//! Secrets on the donor's disk, and what becomes of each in a clone.

use std::fmt;

use kiln_node_plan::{IDENTITY, Inspection, JoinCredential, KeepOrDrop, Treatment, clone_credential};
use serde::Serialize;

/// What becomes of a secret in a clone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Every clone has it.
    Cloned,
    /// A clone removes it, or makes its own, at first boot; until then it is in the image.
    ResetAtFirstBoot,
    /// Clones get their own from outside the image.
    FromOutside(String),
    /// No clone could join with it: the run is refused.
    Refused(String),
}

/// A secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cloned {
    /// Where it is, or what it is.
    pub place: String,
    pub kind: String,
    /// What becomes of it.
    pub fate: Fate,
}

/// The secrets and credentials of a donor, the join credential first.
pub fn cloned(inside: &Inspection) -> Vec<Cloned> {
    let credential = &inside.join_credential;
    let fate = match clone_credential(credential) {
        Ok(KeepOrDrop::Keep) => Fate::Cloned,
        Ok(KeepOrDrop::KeepDroppingCache) => Fate::ResetAtFirstBoot,
        Ok(KeepOrDrop::Drop { renewed_by }) => Fate::FromOutside(renewed_by),
        Err(why) => Fate::Refused(why.to_string()),
    };
    let (place, kind) = match credential {
        JoinCredential::StaticClientCertificate { path } => {
            (path.clone(), "join credential: shared client certificate")
        }
        JoinCredential::BootstrapToken { token_id, .. } => {
            (format!("token `{token_id}`"), "join credential: bootstrap token")
        }
        JoinCredential::ExecPlugin { command } => {
            (command.clone(), "join credential: exec plugin, with a cached certificate")
        }
        JoinCredential::Unknown { .. } => ("unknown".to_owned(), "join credential"),
    };
    let mut all = vec![Cloned { place, kind: kind.to_owned(), fate }];
    if inside.custom_data.present() {
        all.push(Cloned {
            place: "the donor's custom data".to_owned(),
            kind: format!("custom data of {} bytes", inside.custom_data.size()),
            // Where agents keep it belongs to the identity list.
            fate: Fate::ResetAtFirstBoot,
        });
    }
    all.extend(inside.secrets.iter().map(|secret| Cloned {
        place: secret.path.clone(),
        kind: secret.kind.clone(),
        fate: if is_reset(&secret.path) { Fate::ResetAtFirstBoot } else { Fate::Cloned },
    }));
    all
}

/// Whether the identity list takes a path away from clones.
fn is_reset(path: &str) -> bool {
    let gone = IDENTITY.iter().filter(|item| item.treatment != Treatment::Keep);
    gone.flat_map(|item| item.paths).any(|pattern| lies_under(path, pattern))
}

/// Whether a path is what a pattern names, or lies in it.
fn lies_under(path: &str, pattern: &str) -> bool {
    let mut parts = path.split('/');
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| matches_part(part, wanted)))
}

/// `*` stands for any run of characters.
fn matches_part(part: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return part == pattern };
    let Some(left) = part.strip_prefix(first) else { return false };
    (0..=left.len()).filter_map(|at| left.get(at..)).any(|left| matches_part(left, rest))
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cloned => f.write_str("every clone has it"),
            Self::ResetAtFirstBoot => f.write_str("in the image; a clone removes it at first boot"),
            Self::FromOutside(who) => write!(f, "not used by clones: {who} gives each its own"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Cloned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.place, self.kind, self.fate)
    }
}

#[cfg(test)]
mod tests {
    use kiln_node_plan::SecretPlace;

    use super::*;
    use crate::sample::inspection;

    fn fate_of(path: &str) -> Fate {
        let mut inside = inspection();
        inside.secrets = vec![SecretPlace { path: path.into(), kind: "key".into() }];
        cloned(&inside).pop().unwrap().fate
    }

    #[test]
    fn what_the_identity_list_takes_away_is_not_cloned() {
        assert_eq!(fate_of("/etc/ssh/ssh_host_rsa_key"), Fate::ResetAtFirstBoot);
        assert_eq!(fate_of("/var/lib/kubelet/pki/kubelet-client-current.pem"), Fate::ResetAtFirstBoot);
        assert_eq!(fate_of("/etc/kubernetes/azure.json"), Fate::Cloned);
        assert_eq!(fate_of("/etc/ssh/my_key"), Fate::Cloned);
    }

    #[test]
    fn a_pattern_covers_what_lies_in_it_and_nothing_beside_it() {
        assert!(lies_under("/home/a/.ssh/authorized_keys", "/home/*/.ssh"));
        assert!(!lies_under("/home/a", "/home/*/.ssh"));
        assert!(
            matches_part("ssh_host_rsa_key", "ssh_host_*_key")
                && !matches_part("ssh_host_rsa_key.pub", "ssh_host_*_key")
        );
        assert!(!lies_under("/etc/machine-id2", "/etc/machine-id"));
    }

    #[test]
    fn the_join_credential_is_told_by_its_kind() {
        let mut inside = inspection();
        assert_eq!(cloned(&inside)[0].fate, Fate::Cloned);
        inside.join_credential =
            JoinCredential::BootstrapToken { token_id: "abcdef".parse().unwrap(), renewed_by: Some("renewer".into()) };
        let text = cloned(&inside)[0].to_string();
        assert_eq!(
            text,
            "token `abcdef` (join credential: bootstrap token): not used by clones: renewer gives each its own"
        );
        inside.join_credential = JoinCredential::Unknown { why: "no kubeconfig".into() };
        assert!(matches!(cloned(&inside)[0].fate, Fate::Refused(_)));
    }

    #[test]
    fn custom_data_is_named_by_its_size_and_never_shown() {
        let all = cloned(&inspection());
        let text = format!("{} {all:?} {}", all[1], serde_json::to_string(&all).unwrap());
        assert!(text.contains("14 bytes") && !text.contains("#cloud-config"), "{text}");
    }
}
