//! What the parts of a message are called that brings a document to a node.

/// A part that holds a `NodeConfig`.
pub const NODE_CONFIG: &str = "application/vnd.kiln.node-config+json";

/// A part that holds the credential that the node joins with, as text. It stands beside a document in custom data and nowhere else.
pub const CREDENTIAL: &str = "application/vnd.kiln.credential";
