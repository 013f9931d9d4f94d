//! Analysis of a systemd boot: why did a unit start when it did, and what would have started it earlier?
//!
//! The crate does no I/O. A [`Boot`] is parsed from the output of `systemctl show` ([`capture`]) or from a pasted critical chain
//! ([`chain_text`]); everything else is computed from it:
//!
//! - [`chain`], [`blame`] and [`time`] print what `systemd-analyze` prints, byte for byte.
//! - [`explain`] walks back from a unit to PID 1 and lists what would have saved time; [`compare`] and [`plot`] show the result.
//! - [`what_if`] computes the start of a unit without another unit or ordering; [`budget`] checks limits; [`lint`] reads unit files.

mod blame;
pub mod budget;
pub mod capture;
mod chain;
pub mod chain_text;
pub mod compare;
pub mod explain;
pub mod lint;
mod model;
mod order;
pub mod plot;
mod span;
pub mod svg;
mod time;
mod what_if;

pub use blame::{Blamed, blame, blamed};
pub use chain::chain;
pub use model::{Boot, Manager, Released, Unit, UnitName, Units};
pub use span::{BadSpan, Usec};
pub use time::{NotFinished, Phases, phases, time};
pub use what_if::{Change, WhatIf, what_if};
