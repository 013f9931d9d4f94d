//! A case is a folder of `tests/node` with NodeConfigs, a shell script `run`, `expected/transcript`, and optionally `root/` (initial files of
//! the node) and `imds` (the script of the metadata service).
//!
//! The script runs `kilnd` on a temporary root, and its output is compared with the transcript; `KILN_BLESS=1` rewrites the transcript. If the
//! first line of `run` is `booted`, its lines are steps on a machine instead (`booted/steps.rs`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::imds::Imds;
use super::program::PROGRAM;

/// The folder of all cases.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/node")
}

/// The requirements of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A folder as root.
    Folder,
    /// Programs or file systems that its file `needs` lists.
    More,
    /// A machine that boots.
    Machine,
}

/// The names of all cases with these requirements.
pub(crate) fn names(needs: Needs) -> Vec<String> {
    let requirements = |case: &Path| {
        let run =
            std::fs::read_to_string(case.join("run")).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        match (run.lines().next() == Some("booted"), case.join("needs").is_file()) {
            (true, _) => Needs::Machine,
            (false, true) => Needs::More,
            (false, false) => Needs::Folder,
        }
    };
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("tests/node")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir() && requirements(&entry.path()) == needs)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The folder of a case.
pub(crate) fn case_path(name: &str) -> PathBuf {
    folder().join(name).canonicalize().unwrap_or_else(|error| panic!("tests/node/{name}: {error}"))
}

/// Runs a case and compares its transcript.
pub(crate) fn check(name: &str) {
    check_with(name, &[]);
}

/// The same with additional environment variables.
pub(crate) fn check_with(name: &str, variables: &[(&str, String)]) {
    let case = case_path(name);
    let root = super::world::folder();
    let root = root.path();
    if case.join("root").is_dir() {
        copy(&case.join("root"), root);
    }
    let mut shell = testkit::private().command("sh");
    shell.args(["-eu", "-c", ". \"$LIB\"; . \"$CASE/run\"", "run"]).current_dir(&case).env_clear();
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    shell.env("LIB", folder().join("lib.sh")).env("CASE", &case).env("ROOT", root);
    shell.env("KILND", PROGRAM);
    shell.envs(variables.iter().map(|(name, value)| (name, value)));
    let imds = std::fs::read_to_string(case.join("imds")).ok().map(|script| Imds::start(&script, &case));
    // Nothing listens on port 1: a case without a script has no metadata service.
    shell.env("IMDS", imds.as_ref().map_or("http://127.0.0.1:1", |imds| &imds.url));
    let output = shell.output().expect("a shell");
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.push_str(&String::from_utf8_lossy(&output.stderr));
    if let Some(imds) = &imds {
        match imds.requests_while_down() {
            None => _ = writeln!(printed, "[requests for user data: {}]", imds.user_data_requests()),
            Some(unanswered) => {
                let more = if unanswered > 1 { "many" } else { "1" };
                let answered = imds.user_data_requests() - unanswered;
                _ = writeln!(
                    printed,
                    "[requests for user data: {more} while the service was down, {answered} afterwards]"
                );
            }
        }
        match imds.instance_requests() {
            0 => {}
            // The number of requests up to a deadline depends on the speed of the machine.
            10.. => printed.push_str("[requests for the instance: many]\n"),
            times => _ = writeln!(printed, "[requests for the instance: {times}]"),
        }
        printed = printed.replace(&imds.url, "IMDS");
    }
    if !output.status.success() {
        _ = writeln!(printed, "[the script ended with {}]", output.status);
    }
    let printed = printed.replace(&*root.to_string_lossy(), "ROOT").replace(&*case.to_string_lossy(), "CASE");
    compare(&case, &printed);
}

/// Compares a transcript with the expected one.
pub(crate) fn compare(case: &Path, printed: &str) {
    let printed = normalize(printed);
    let expected = case.join("expected/transcript");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::create_dir_all(case.join("expected")).expect("a folder");
        std::fs::write(&expected, &printed).expect("written");
    }
    let wanted = std::fs::read_to_string(&expected).unwrap_or_else(|error| format!("{}: {error}", expected.display()));
    assert!(printed == wanted, "{}: printed\n{printed}\nexpected\n{wanted}", case.display());
}

/// Replaces durations, which differ between runs.
fn normalize(text: &str) -> String {
    text.lines().map(|line| without_time(line) + "\n").collect()
}

fn without_time(line: &str) -> String {
    for name in ["\"startedUsec\": ", "\"tookUsec\": "] {
        if let Some((head, tail)) = line.split_once(name) {
            return format!("{head}{name}0{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
    }
    let words: Vec<&str> = line.split(' ').collect();
    let is_time = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let replaced: Vec<String> = words
        .iter()
        .enumerate()
        .map(|(index, word)| {
            let next = words.get(index + 1).map_or("", |next| next.trim_end_matches([':', ',', ';']));
            // `in 300 s and 63 attempts` of a request that timed out.
            let is_timeout = next == "attempts" || next == "s" && words.get(index + 2) == Some(&"and");
            if (next == "ms" || is_timeout) && is_time(word) { "N".to_owned() } else { (*word).to_owned() }
        })
        .collect();
    replaced.join(" ")
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("copied");
        }
    }
}
