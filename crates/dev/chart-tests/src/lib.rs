//! Shared code of the tests of `charts/kiln`: the chart's files, Helm, rendered objects, golden files, and the generated reference page.

mod files;
mod golden;
mod helm;
mod reference;
mod rendered;

pub use files::{chart, leaves, root, schema, text, values};
pub use golden::golden;
pub use helm::{Helm, HelmError};
pub use reference::page;
pub use rendered::Rendered;
