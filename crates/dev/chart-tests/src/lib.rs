//! What the tests of `charts/kiln` share: the chart's files, Helm, rendered objects, golden files, and the page that is made of the
//! schema.

mod files;
mod golden;
mod helm;
mod reference;
mod rendered;

pub use files::{chart, leaves, root, schema, text, values};
pub use golden::golden;
pub use helm::{Helm, Refusal};
pub use reference::page;
pub use rendered::Rendered;
