//! The Azure SDKs for Python, JavaScript and Go against `kiln sim serve`. The scenarios are in `tests/python`, `tests/javascript` and
//! `tools/azure-sdk-go`; each is the test of a rule in `docs/reference/embedded-azure.md`.

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
