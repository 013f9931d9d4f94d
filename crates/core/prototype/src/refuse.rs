//! What speaks against a run, found before anything is touched.

mod check;
mod definition;
mod facts;
mod row;

pub use check::{LEAST_FREE_PERCENT, Verdict, Warning, check};
pub use definition::{DefinitionChoice, Misfit, Wanted, choose_definition, definition_names, misfits, new_definition};
pub use facts::{Original, Preflight};
pub use row::{Consent, Refusal, Row};
