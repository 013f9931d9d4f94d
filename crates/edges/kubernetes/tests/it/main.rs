//! The edge against an API server in memory, in virtual time.

mod birth;
#[path = "../common/mod.rs"]
mod common;
mod drain;
mod fake;
mod force;
mod hold;
mod journal;
mod lease;
mod ready;
mod stores;
mod table;
mod tasks;
mod world;
