//! A small Kubernetes API server for demos and tests, with simulated kubelets.
//!
//! [`Server`] handles requests. It is a tower service, so a client in the same process needs no socket. Behind it is a state machine that
//! gets the time as an argument and stores its objects in a journal. Unsupported requests are rejected with a `Status`.

mod access;
mod apply;
mod call;
mod cluster;
mod control;
mod custom;
mod delete;
mod discovery;
mod error;
mod event;
mod intern;
pub mod kubelet;
mod list;
mod meta;
mod names;
mod openapi;
mod patch;
mod pods;
mod resource;
mod response;
mod schema;
mod selector;
pub mod serve;
mod server;
mod store;
mod strategy;
mod table;
mod watch;
mod write;

pub use access::{AccessError, Token, write_kubeconfig};
pub use kiln_sim_store::JournalError;
pub use server::{Body, Clock, Server, Service};
