//! The engine with the real edges, against the embedded Azure and Kubernetes, in virtual time.

mod breakpoint;
mod clones;
mod crash;
mod failing;
mod guardrails;
mod large;
mod life;
mod live;
mod refusing;
mod state;
mod wire;
mod world;
