//! Checks that the committed reference page is up to date. `KILN_BLESS=1` rewrites it.

use kiln_bootstrap::{Field, reference};

#[test]
fn reference_page_is_up_to_date() {
    let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/bootstrap-fields.md");
    let generated = reference::page();
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/reference/bootstrap-fields.md is out of date: run the test with KILN_BLESS=1"
    );
    assert_eq!(Field::all().iter().filter(|field| field.variable.is_some()).count(), 127);
    for field in Field::all() {
        assert!(generated.contains(&format!("| `{}` |", field.name)), "{}", field.name);
    }
}
