//! Golden files, with the parts of an output that differ between runs replaced.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

/// Compares an output with a golden file, or writes the file if `KILN_BLESS` is set.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e_prototype/golden").join(name);
    let plain = replace_variable_parts(text);
    if std::env::var_os("KILN_BLESS").is_some() {
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, plain)).expect("a golden file is written");
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == plain, "{} differs from the output:\n{plain}\n-- committed\n{committed}", path.display());
}

/// Replaces times, ids of runs and pods, and durations in seconds.
pub(crate) fn replace_variable_parts(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut replaced: Vec<String> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let before = index.checked_sub(1).map(|at| words[at]);
            let after = words.get(index + 1).copied().unwrap_or_default();
            let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_seconds = after.trim_end_matches([',', ')', ';', ':']) == "s" && core.parse::<u64>().is_ok();
            let new = if core.parse::<Timestamp>().is_ok() {
                word.replace(core, "TIME")
            } else if before == Some("run") && core.len() > 8 && !core.contains('.') {
                word.replace(core, "RUN")
            } else if is_seconds {
                word.replace(core, "N")
            } else if let Some(at) = core.find("node-agent-") {
                word.replace(&core[at..], "node-agent-POD")
            } else if core.starts_with("kiln-canary-") {
                word.replace(core, "kiln-canary-RUN")
            } else {
                (*word).to_owned()
            };
            replaced.push(new);
        }
        let mut line = replaced.join(" ").trim_end().to_owned();
        // The width of a column depends on its widest cell.
        while line.contains("   ") {
            line = line.replace("   ", "  ");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[test]
fn times_and_ids_are_replaced_and_the_rest_is_kept() {
    assert_eq!(
        replace_variable_parts("TIMES 2026-11-16T01:02:03Z  run ho77baes0hpms8n1: 2026.11.16, 41 s"),
        "TIMES TIME  run RUN: 2026.11.16, N s\n"
    );
    assert_eq!(
        replace_variable_parts("pod kube-system/node-agent-d7jrt stays; 10 instances run 2026.11.16"),
        "pod kube-system/node-agent-POD stays; 10 instances run 2026.11.16\n"
    );
}
