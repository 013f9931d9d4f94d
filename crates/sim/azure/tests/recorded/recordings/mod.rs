//! Tests that read the recorded interactions. What differs on purpose is a row of `docs/reference/embedded-azure.md`.

mod data;
mod differences;
mod replay;
mod seeds;
mod shape;
