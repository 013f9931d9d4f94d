//! The chart's pods call kiln with arguments that kiln knows.

use std::path::PathBuf;
use std::process::Command;

/// The arguments of the container in a rendered chart: the list below `args:`.
fn arguments(rendered: &str) -> Vec<String> {
    let mut lines = rendered.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let items = lines.by_ref().map_while(|line| line.trim().strip_prefix("- "));
    items.map(|item| item.trim_matches(['"', '\'']).to_owned()).collect()
}

#[test]
fn every_rendered_command_line_is_one_that_kiln_parses() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dev/chart-tests/golden");
    let files = std::fs::read_dir(&folder).expect("the golden files of the chart").flatten();
    let mut seen = 0;
    let rendered = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.extension().is_some_and(|kind| kind == "yaml") && !name.contains(".values.")
    };
    for path in files.map(|entry| entry.path()).filter(rendered) {
        let arguments = arguments(&std::fs::read_to_string(&path).expect("a golden file"));
        assert_eq!(arguments.first().map(String::as_str), Some("prototype"), "{}", path.display());
        // `--help` at the end: everything before it is parsed, and nothing is contacted.
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(&arguments).arg("--help").env_clear().output().expect("kiln runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", path.display());
        seen += 1;
    }
    assert!(seen >= 8, "{seen} golden files");
}
