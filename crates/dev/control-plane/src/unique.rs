//! Names that no other test of any process uses.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// `prefix`, a counter and a random number; valid for namespaces, nodes and pods.
pub fn unique(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    // The hasher's keys differ between calls and processes; 32 bits keep names short.
    let random = RandomState::new().hash_one((std::process::id(), counter)) >> 32;
    format!("{prefix}-{counter}-{random:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_names_differ_and_are_valid_kubernetes_names() {
        let (one, two) = (unique("drain"), unique("drain"));
        assert_ne!(one, two);
        assert!(one.starts_with("drain-") && one.len() < 30, "{one}");
        assert!(one.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{one}");
    }
}
