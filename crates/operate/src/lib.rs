//! Runs the prototype operation: the only code between decisions ([`kiln_prototype`]) and edges. Command line, Job and operator call it.
//!
//! Nothing here reads a clock or draws a number: both come in by [`Context`].

mod context;
mod inside;
mod news;
mod stop;

pub use context::{Clock, Context, Ids};
pub use inside::Inside;
pub use news::{Happening, News, Silent, Watcher};
pub use stop::{Stop, Stopper};
