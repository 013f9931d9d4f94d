//! `helm lint`.

use chart_tests::{Helm, chart};

#[test]
fn chart_has_no_lint_warnings() {
    let helm = Helm::new();
    let chart = chart().display().to_string();
    let plain = helm.run(None, &["lint", &chart]).success();
    assert!(plain.stdout.contains("0 chart(s) failed"), "{plain}");
    let strict = helm.run(None, &["lint", "--strict", "--with-subcharts", &chart]).success();
    assert!(!strict.stdout.contains("[WARNING]") && !strict.stdout.contains("[ERROR]"), "{strict}");
}

#[test]
fn broken_chart_fails_lint() {
    let helm = Helm::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), "apiVersion: v2\nname: broken\n").unwrap();
    let finished = helm.run(None, &["lint", &folder.path().display().to_string()]);
    assert_eq!(finished.code, Some(1), "{finished}");
}
