//! The Azure SDK for Python against `kiln sim serve`. The scenarios are in `tests/python`; each is the test of a rule in
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
