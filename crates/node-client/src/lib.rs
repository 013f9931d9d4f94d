//! The node's own view of the API server, with the certificate of its kubelet. Synchronous.
