//! The official SDK for Python against `kiln sim serve`. What each scenario does is in `tests/python`, what it shows is a row of
//! `docs/reference/embedded-azure.md`.

mod arm;
#[path = "../azure/mod.rs"]
mod azure;
mod disks;
mod faults;
mod identity;
mod images;
mod life;
mod play;
mod pools;
