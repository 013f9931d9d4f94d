//! What a world is kept in: [`Table`]s that know which of their records changed, and a [`Journal`] on disk that has every change
//! before the request that caused it is answered. [`Ids`] names what is in it.

mod ids;
mod journal;
mod table;

pub use ids::{Ids, chance};
pub use journal::{Journal, JournalError, Kept};
pub use table::Table;
