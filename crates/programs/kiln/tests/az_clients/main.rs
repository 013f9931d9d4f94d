//! The real `az` against `kiln sim serve`. Each command costs seconds, so a test is a theme and not a rule.

#[path = "../azure/mod.rs"]
mod azure;
mod images;
mod login;
mod pools;
mod session;
mod trouble;
