//! Golden files, and what of an output differs from run to run.

use std::fs;
use std::path::Path;

use jiff::Timestamp;

/// Compares with a golden file. What differs from run to run is replaced first.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e_prototype/golden").join(name);
    let plain = plain(text);
    if std::env::var_os("KILN_BLESS").is_some() {
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, plain)).expect("a golden file is written");
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == plain, "{} is not what is said now:\n{plain}\n-- committed\n{committed}", path.display());
}

/// Times, names of runs and pods, and spans of seconds.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut said: Vec<String> = Vec::new();
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
            said.push(new);
        }
        let mut line = said.join(" ").trim_end().to_owned();
        // A column is as wide as its widest cell.
        while line.contains("   ") {
            line = line.replace("   ", "  ");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[test]
fn what_differs_from_run_to_run_is_replaced_and_the_rest_stays() {
    assert_eq!(
        plain("TIMES 2026-11-16T01:02:03Z  run ho77baes0hpms8n1: 2026.11.16, 41 s"),
        "TIMES TIME  run RUN: 2026.11.16, N s\n"
    );
    assert_eq!(
        plain("pod kube-system/node-agent-d7jrt stays; 10 instances run 2026.11.16"),
        "pod kube-system/node-agent-POD stays; 10 instances run 2026.11.16\n"
    );
}
