//! Storage of the simulated services. A [`Table`] tracks which of its records changed, and a [`Journal`] writes each change to disk before
//! the request that caused it is answered. [`Ids`] generates reproducible identifiers.

mod ids;
mod journal;
mod table;

pub use ids::{Ids, chance};
pub use journal::{Journal, JournalError, Persistent};
pub use table::Table;
