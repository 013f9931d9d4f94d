//! Content types of the parts of a MIME message that delivers a document to a node.

/// Content type of a `NodeConfig`.
pub const NODE_CONFIG: &str = "application/vnd.kiln.node-config+json";

/// Content type of the join credential, as text. It is only allowed in custom data.
pub const CREDENTIAL: &str = "application/vnd.kiln.credential";
