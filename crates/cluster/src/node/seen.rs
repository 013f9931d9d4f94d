//! A node as it was read.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Node;

use super::hold::{HOLD_ANNOTATION, Hold};
use crate::Error;
use crate::name::NodeName;

/// A node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: NodeName,
    /// Its id among all objects that ever were.
    pub uid: String,
    /// Which machine it is, in the cloud's words.
    pub provider_id: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether nothing new is scheduled onto it.
    pub cordoned: bool,
    /// Whether kubelet says that it works.
    pub readiness: Readiness,
    /// Changes with each boot of the machine.
    pub boot_id: Option<String>,
    /// What it was when it was read.
    pub revision: String,
}

/// What the condition `Ready` of a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It is true.
    Ready,
    /// It is not.
    NotReady {
        /// `False` or `Unknown`.
        status: String,
        /// The machine's word.
        reason: String,
        /// The sentence.
        message: String,
    },
    /// Kubelet never said anything.
    Unsaid,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("it is ready"),
            Self::NotReady { status, reason, message } => write!(f, "condition Ready is {status}: {reason}: {message}"),
            Self::Unsaid => f.write_str("kubelet has not reported a condition Ready yet"),
        }
    }
}

impl NodeSeen {
    pub(crate) fn of(node: Node) -> Result<Self, Error> {
        let Node { metadata, spec, status } = node;
        let name = metadata.name.unwrap_or_default();
        let name = NodeName::try_from(name).map_err(|bad| Error::Unreadable {
            what: "read a node".to_owned(),
            source: Box::new(kube::Error::Service(bad.into())),
        })?;
        let spec = spec.unwrap_or_default();
        let status = status.unwrap_or_default();
        let ready = status.conditions.unwrap_or_default().into_iter().find(|c| c.type_ == "Ready");
        let readiness = ready.map_or(Readiness::Unsaid, |condition| match condition.status.as_str() {
            "True" => Readiness::Ready,
            _ => Readiness::NotReady {
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
            },
        });
        Ok(Self {
            name,
            uid: metadata.uid.unwrap_or_default(),
            provider_id: spec.provider_id,
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            cordoned: spec.unschedulable.unwrap_or_default(),
            readiness,
            boot_id: status.node_info.map(|info| info.boot_id).filter(|id| !id.is_empty()),
            revision: metadata.resource_version.unwrap_or_default(),
        })
    }

    /// Who holds the node and what it was before.
    pub fn hold(&self) -> Result<Option<Hold>, Error> {
        let Some(text) = self.annotations.get(HOLD_ANNOTATION) else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|source| Error::BadAnnotation {
            node: self.name.clone(),
            annotation: HOLD_ANNOTATION,
            text: text.clone(),
            source,
        })
    }
}
