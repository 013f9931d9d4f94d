//! Resources that live as long as the process. The rows of built-in resources are static; those of custom resources are leaked, each
//! different one once, so that a request, a watch or a response can hold either kind of row.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::resource::Resource;

static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
static ROWS: Mutex<BTreeSet<&'static Resource>> = Mutex::new(BTreeSet::new());

/// The sets only grow, so a panic elsewhere leaves them valid.
fn lock<T>(set: &Mutex<T>) -> MutexGuard<'_, T> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn text(text: &str) -> &'static str {
    let mut known = lock(&TEXTS);
    if let Some(known) = known.get(text) {
        return known;
    }
    let new: &'static str = Box::leak(Box::from(text));
    known.insert(new);
    new
}

pub(crate) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> &'static [&'static str] {
    let list: Vec<&'static str> = texts.into_iter().map(text).collect();
    let mut known = lock(&LISTS);
    if let Some(known) = known.get(list.as_slice()) {
        return known;
    }
    let new: &'static [&'static str] = Vec::leak(list);
    known.insert(new);
    new
}

pub(crate) fn resource(resource: Resource) -> &'static Resource {
    let mut known = lock(&ROWS);
    if let Some(known) = known.get(&resource) {
        return known;
    }
    let new: &'static Resource = Box::leak(Box::new(resource));
    known.insert(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ObjectKind;

    #[test]
    fn equal_values_are_leaked_once() {
        assert!(std::ptr::eq(text("a.example.com"), text(concat!("a.", "example.com"))));
        assert!(std::ptr::eq(list(["x", "y"]), list(["x", "y"])));
        let row = *ObjectKind::Pod.resource();
        assert!(std::ptr::eq(resource(row), resource(row)));
        assert!(!std::ptr::eq(resource(row), resource(Resource { version: "v2", ..row })));
    }
}
