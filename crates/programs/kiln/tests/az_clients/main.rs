//! The real `az` against `kiln sim serve`. Each command takes seconds, so a test covers a whole topic.

#[path = "../azure/mod.rs"]
mod azure;
mod images;
mod login;
mod pools;
mod session;
mod trouble;
