//! The engine against a model world: no runtime, no sockets, virtual time.

mod crash;
mod driver;
mod failing;
mod fault;
mod scenario;
mod world;
