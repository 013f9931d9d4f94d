//! Rollouts over a simulated fleet: no runtime, no sockets, virtual time.
//!
//! - [`model`]: nodes that react to the operator's writes as kilnd does, and an operator that carries out decisions.
//! - `rules`, `stops`, `clocks` and `texts`: one test per rule.
//! - [`machines`]: a pool of machines, for rollouts with an image version; `images` has one test per rule, `image_random` random events.
//! - `stories`: whole rollouts as golden logs.
//! - `random`: random events from thousands of seeds, with an independent check of every act.

mod clocks;
mod dice;
mod image_random;
mod images;
mod machines;
mod model;
mod oracle;
mod random;
mod rules;
mod stops;
mod stories;
mod texts;
