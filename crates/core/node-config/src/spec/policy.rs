//! How a node joins, what makes it healthy, and when it may change.

use crate::describe::{choice, document};
use crate::effect::Effect;

document! {
    /// Where a node gets the credential that it joins with. The document says where, never what.
    pub struct CredentialFrom {
        /// The kind of place.
        kind: CredentialKind = None,
        /// The file, the name of the system credential, or the client id of the identity. Custom data needs none.
        name: String = None,
        /// The service that answers, for kinds that ask one.
        endpoint: String = None,
    }
}

choice! {
    /// A place that holds a credential.
    pub enum CredentialKind {
        /// The custom data of the machine, beside the document: a part of its own, which no pod reads.
        CustomData = "customData",
        /// A file on the node that only root reads.
        File = "file",
        /// A credential that systemd hands over.
        SystemCredential = "systemCredential",
        /// The file that an extension of the machine wrote its protected settings to.
        ProtectedSettings = "protectedSettings",
        /// The identity of the machine, attested by its host.
        AttestedIdentity = "attestedIdentity",
        /// A managed identity.
        ManagedIdentity = "managedIdentity",
    }
}

document! {
    /// What must hold before a generation counts as good.
    pub struct Health {
        /// The gates. Without any: the kubelet answers and the node is ready.
        gates: Vec<Gate> = None,
        /// How many seconds they have, together. Then the previous generation comes back.
        within_seconds: u32 = None,
    }
}

document! {
    /// One thing that must hold.
    pub struct Gate {
        /// Its name.
        name: String = None,
        /// What is looked at.
        kind: GateKind = None,
        /// The unit, URL on this machine, or path.
        target: String = None,
    }
}

choice! {
    /// What a gate looks at.
    pub enum GateKind {
        /// The kubelet says that it is healthy.
        KubeletHealthy = "kubeletHealthy",
        /// The node is ready.
        NodeReady = "nodeReady",
        /// A unit is active.
        UnitActive = "unitActive",
        /// A URL on this machine answers well.
        HttpOk = "httpOk",
        /// A file exists.
        FileExists = "fileExists",
    }
}

document! {
    /// When and how far a node may change itself.
    pub struct Update {
        /// The costliest effect that the node brings about by itself; beyond it asks. Without it: `restart`.
        up_to: Option<Effect> = None,
        /// How often it looks for a newer document, in seconds.
        poll_seconds: u32 = None,
        /// Over how many seconds nodes spread a change.
        spread_seconds: u32 = None,
        /// Whether it only reports what it would change.
        paused: bool = None,
    }
}

impl crate::describe::Describe for Effect {
    fn kind() -> crate::describe::Kind {
        const WORDS: [&str; 7] = ["none", "reload", "restart", "cluster", "drain", "reboot", "replace"];
        crate::describe::Kind::Choice(&WORDS)
    }
}
