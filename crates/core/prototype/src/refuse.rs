//! What speaks against a run, found before anything is touched.

mod check;
mod facts;
mod line;
mod row;

pub use check::{LEAST_FREE_PERCENT, Verdict, Warning, check};
pub use facts::{Original, Preflight};
pub use line::{LineChoice, Misfit, Wanted, choose_line, line_names, misfits, new_line};
pub use row::{Consent, Refusal, Row};
