//! The chart with the real Helm: linted, rendered, rejected, and installed on a real API server.

mod effects;
mod install;
mod lint;
mod rejections;
mod release;
mod render;
mod schedule;
mod sets;
