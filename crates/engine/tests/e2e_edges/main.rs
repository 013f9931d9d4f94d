//! The operation on the real edges, against an Azure and an API server in the same process, in virtual time.

mod clones;
mod crash;
mod failing;
mod hold;
mod life;
mod refusing;
mod state;
mod wire;
mod world;
