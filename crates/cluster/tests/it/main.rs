//! The edge against an API server in memory, in virtual time.

#[path = "../common/mod.rs"]
mod common;
mod drain;
mod fake;
mod hold;
mod journal;
mod lease;
mod ready;
mod table;
