//! The decisions against a model of Azure and a cluster: no runtime, no sockets, virtual time.

mod crash;
mod days;
mod driver;
mod failing;
mod fault;
mod journal;
mod one_switch;
mod requests;
mod rolled_back;
mod runners;
mod scenario;
mod seeds;
mod world;
