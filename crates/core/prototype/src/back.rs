//! The way back: which version new nodes get instead, and how the pool is kept from walking into the same trouble again.

mod bad;
mod decide;
mod error;
mod hold;
mod patch;
mod writes;

pub use bad::{BadVersion, FINGERPRINT_TAG, MOST_REMEMBERED, forget, known, numbers, read, remember};
pub use decide::{Ask, Place, To, decide};
pub use error::BackError;
pub use hold::{HOLD_TAG, Hold, lift, lift_after};
pub use patch::{Fingerprint, Patch, SamePatch, Suspect, same_patch};
pub use writes::{Back, RecipeTo, Running, Write};

#[cfg(test)]
mod ten_nights;
