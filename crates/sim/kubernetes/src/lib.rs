//! A small Kubernetes API server for trying, and a world that plays its kubelets.
//!
//! [`Server`] takes requests and gives answers; it is a tower service, so that a client in the same process needs no socket. Behind
//! it is a state machine that gets the time from outside and keeps its objects in a journal. What the server does not do it refuses
//! with a `Status`.

mod access;
mod call;
mod cluster;
mod control;
mod delete;
mod discovery;
mod error;
mod event;
pub mod kubelet;
mod list;
mod meta;
mod names;
mod openapi;
mod patch;
mod pods;
mod resource;
mod schema;
mod selector;
pub mod serve;
mod server;
mod show;
mod store;
mod strategy;
mod table;
mod watch;
mod write;

pub use access::{AccessError, Token, write_kubeconfig};
pub use kiln_sim_store::JournalError;
pub use server::{Body, Clock, Server, Service};
