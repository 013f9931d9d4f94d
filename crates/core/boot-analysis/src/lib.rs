//! Why a unit started when it did.
//!
//! Values in, values out: a boot is read from what `systemctl show` printed or from a pasted critical chain, and everything else is computed
//! from that.

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
mod time;
mod what_if;

pub use blame::{Blamed, blame, blamed};
pub use chain::chain;
pub use model::{Boot, Manager, Released, Unit, UnitName, Units};
pub use span::{BadSpan, Usec};
pub use time::{NotFinished, Phases, phases, time};
pub use what_if::{Change, WhatIf, what_if};
