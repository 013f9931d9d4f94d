//! The engine against a model world: no runtime, no sockets, virtual time.

mod crash;
mod driver;
mod fault;
mod scenario;
mod world;
