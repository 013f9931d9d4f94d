//! The custom resources of the fleet on a real API server: their definitions, what nodes and people may do, and the operator's release.

mod definitions;
mod guide;
mod matrix;
mod nodes;
mod people;
mod reads;
mod release;
mod rules;
mod session;
