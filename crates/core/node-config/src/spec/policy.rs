//! Join credential, health gates and update policy.

use crate::describe::{choice, document};
use crate::effect::Effect;

document! {
    /// Source of the credential that a node joins the cluster with. The document never contains the credential itself.
    pub struct CredentialFrom {
        /// Kind of the source.
        kind: CredentialKind = None,
        /// Path of the file, name of the system credential, or client ID of the identity. Not used with `customData`.
        name: String = None,
        /// URL of the service, for kinds that request the credential from one.
        endpoint: String = None,
    }
}

choice! {
    /// Kind of source of a credential.
    pub enum CredentialKind {
        /// A separate part of the machine's custom data, which pods cannot read.
        CustomData = "customData",
        /// A file on the node that is readable only by root.
        File = "file",
        /// A systemd credential.
        SystemCredential = "systemCredential",
        /// The file with the protected settings of a VM extension.
        ProtectedSettings = "protectedSettings",
        /// The attested identity of the machine.
        AttestedIdentity = "attestedIdentity",
        ManagedIdentity = "managedIdentity",
    }
}

document! {
    /// Health gates that a new generation must pass before it is committed.
    pub struct Health {
        /// List of gates. If empty, the kubelet must be healthy and the node must be Ready.
        gates: Vec<Gate> = None,
        /// Time in seconds within which all gates must pass. Otherwise kilnd reverts to the previous generation.
        within_seconds: u32 = None,
    }
}

document! {
    /// A health check of a new generation.
    pub struct Gate {
        /// Name of the gate.
        name: String = None,
        /// Kind of the check.
        kind: GateKind = None,
        /// Unit, URL on the local machine, or path, depending on the kind.
        target: String = None,
    }
}

choice! {
    /// Kind of a health gate.
    pub enum GateKind {
        /// The kubelet's health endpoint returns success.
        KubeletHealthy = "kubeletHealthy",
        /// The node has condition Ready.
        NodeReady = "nodeReady",
        UnitActive = "unitActive",
        /// A URL on the local machine returns success.
        HttpOk = "httpOk",
        FileExists = "fileExists",
    }
}

document! {
    /// Restrictions on changes that a node applies by itself.
    pub struct Update {
        /// Most disruptive effect that the node applies by itself. It requests changes beyond it from the cluster. Defaults to `restart`.
        up_to: Option<Effect> = None,
        /// Interval in seconds at which the node checks for a newer document.
        poll_seconds: u32 = None,
        /// Time in seconds over which nodes spread a change.
        spread_seconds: u32 = None,
        /// Reports pending changes without applying them.
        paused: bool = None,
    }
}

impl crate::describe::Describe for Effect {
    fn kind() -> crate::describe::FieldType {
        const NAMES: [&str; 7] = ["none", "reload", "restart", "cluster", "drain", "reboot", "replace"];
        crate::describe::FieldType::Choice(&NAMES)
    }
}
