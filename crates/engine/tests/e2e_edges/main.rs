//! The engine with the real edges, against the embedded Azure and Kubernetes, in virtual time.

mod breakpoint;
mod canary;
mod clones;
mod crash;
mod failing;
mod guardrails;
mod journal;
mod large;
mod life;
mod live;
mod push;
mod refresh;
mod refusing;
mod rollback;
mod settings;
mod state;
mod wire;
mod world;
