//! The commands of the fleet on a real API server with the real definitions, without an operator: the tests write what the operator would write.

mod create;
mod freezes;
mod guides;
mod nodes;
mod trouble;
mod verbs;
mod watch;
mod world;
