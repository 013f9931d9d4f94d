//! The way back: which version new nodes get instead, and how the pool is kept from walking into the same trouble again.

mod bad;
mod decide;
mod hold;
mod patch;

pub use bad::{BadVersion, FINGERPRINT_TAG, MOST_REMEMBERED, forget, numbers, read, remember};
pub use decide::{Ask, Back, BackError, Place, RecipeTo, Running, To, Write, decide};
pub use hold::{HOLD_TAG, Hold, lift};
pub use patch::{Fingerprint, Patch, SamePatch, Suspect, same_patch};

#[cfg(test)]
mod ten_nights;
