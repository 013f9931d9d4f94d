//! What the tests of kilnd share: cases as folders, a metadata service that follows a script, documents, folders as values, and the program itself.

#![expect(dead_code, reason = "each test takes what it needs")]

pub(crate) mod case;
pub(crate) mod documents;
pub(crate) mod imds;
pub(crate) mod program;
pub(crate) mod world;
