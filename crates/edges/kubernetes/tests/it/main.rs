//! The Kubernetes edge against an in-memory API server, in virtual time.

mod change;
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
mod volumes;
mod world;
