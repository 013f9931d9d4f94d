//! Image versions by the operator: a real API server with real controllers, the embedded Azure as the factory, and simulated kubelets for its machines.

mod bad;
mod rollouts;
mod runs;
mod world;
