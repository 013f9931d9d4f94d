//! What the tests of kilnd share: cases as folders, a metadata service that follows a script, documents, and folders as values.

#![expect(dead_code, reason = "each test takes what it needs")]

pub(crate) mod case;
pub(crate) mod documents;
pub(crate) mod imds;
pub(crate) mod world;
