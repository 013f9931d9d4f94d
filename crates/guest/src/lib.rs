//! What a machine learns from its host, and from nobody else: its id, its custom data, its metadata. Synchronous, without TLS.
