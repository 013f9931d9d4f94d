//! The engine with the real edges, against the embedded Azure and Kubernetes, in virtual time.

mod breakpoint;
mod clones;
mod crash;
mod failing;
mod journal;
mod life;
mod refusing;
mod rollback;
mod state;
mod wire;
mod world;
