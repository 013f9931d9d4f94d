//! The chart by the real Helm: linted, rendered, refused, and installed on a real API server.

mod effects;
mod install;
mod lint;
mod refusals;
mod release;
mod render;
mod schedule;
mod sets;
