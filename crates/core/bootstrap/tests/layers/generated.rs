//! The committed page is the one that the table makes. `KILN_BLESS=1` writes it.

use kiln_bootstrap::{Field, reference};

#[test]
fn the_committed_page_lists_every_field() {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/bootstrap-fields.md");
    let made = reference::page();
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == made, "docs/reference/bootstrap-fields.md is out of date: run the test with KILN_BLESS=1");
    assert_eq!(Field::all().iter().filter(|field| field.variable.is_some()).count(), 127);
    for field in Field::all() {
        assert!(made.contains(&format!("| `{}` |", field.name)), "{}", field.name);
    }
}
