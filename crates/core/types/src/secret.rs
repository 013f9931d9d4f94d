//! Text and bytes that cannot print themselves.

use std::fmt;
use std::ops::Deref;

use serde::Deserialize;

/// A secret on its way to the one request, file or document that may contain it: text, or bytes as [`SecretBytes`].
///
/// It has no `Serialize` and its `Debug` prints `***`, so that a secret reaches a log, a journal or a status only by an explicit
/// [`expose`](Self::expose).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Secret<T = String>(T);

/// A secret that need not be UTF-8.
pub type SecretBytes = Secret<Vec<u8>>;

impl<T: Deref> Secret<T> {
    /// Wraps text or bytes.
    pub fn new(secret: impl Into<T>) -> Self {
        Self(secret.into())
    }

    /// The secret itself.
    pub fn expose(&self) -> &T::Target {
        &self.0
    }
}

impl Secret {
    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_secret() {
        assert_eq!(format!("{:?}", Some(Secret::<String>::new("hunter2"))), "Some(***)");
        assert_eq!(format!("{:?}", SecretBytes::new("hunter2")), "***");
    }
}
