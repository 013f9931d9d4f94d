//! The Kubernetes edge against a real API server.

mod budget;
#[path = "../common/mod.rs"]
mod common;
mod kubectl;
mod kubelet;
mod objects;
mod outage;
mod permissions;
mod proxy;
mod real;
mod stores;
