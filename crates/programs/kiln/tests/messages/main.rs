//! Help texts and error messages of the whole program, in one place for review.
//!
//! `golden/help` has the help of every command. `golden/errors` has transcripts: each line that starts with `$ ` is run in a copy of `inputs`, and
//! is followed by its exit code and its output. To add an error, add a `$ ` line. `KILN_BLESS=1` writes all files; review the diff.

mod variants;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Finished, Kiln};

const KILN: &str = env!("CARGO_BIN_EXE_kiln");

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages/golden").join(name)
}

/// Compares a text with a golden file, or writes it.
fn compare(path: &Path, text: &str) -> Result<(), String> {
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(path, text).expect("write the golden file");
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    if committed == text {
        return Ok(());
    }
    let difference = committed.lines().zip(text.lines()).enumerate().find(|(_, (old, new))| old != new);
    Err(format!(
        "{}: run the test with KILN_BLESS=1 and review the diff; first difference: {difference:?}",
        path.display()
    ))
}

fn assert_current(results: impl IntoIterator<Item = Result<(), String>>) {
    let outdated: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(outdated.is_empty(), "{}", outdated.join("\n"));
}

/// Runs a command in a folder. The environment is empty, so that programs such as `systemctl` and the user's settings are not found.
fn run(folder: &Path, environment: &BTreeMap<String, String>, arguments: &[String]) -> Finished {
    let mut command = Command::new(KILN);
    command.args(arguments).current_dir(folder).env_clear().envs(environment);
    command.env("PATH", "/nonexistent").env("HOME", "/nonexistent").env("TMPDIR", folder);
    testkit::run(command, Duration::from_mins(1))
}

/// The help of a command and of all its subcommands.
fn help(path: &[&str]) -> String {
    let arguments: Vec<String> = path.iter().chain(&["--help"]).map(ToString::to_string).collect();
    let finished = run(Path::new("/"), &BTreeMap::new(), &arguments).success();
    let mut text = format!("$ kiln {}\n{}\n", arguments.join(" "), trimmed(&finished.stdout));
    if !path.is_empty() {
        for name in subcommands(&finished.stdout) {
            text.push_str(&help(&[path, &[name]].concat()));
        }
    }
    text
}

fn subcommands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

fn trimmed(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| format!("{all}{}\n", line.trim_end()))
}

#[test]
fn help_of_every_command_is_as_reviewed() {
    let top = help(&[]);
    let names = subcommands(&top);
    assert!(names.len() >= 9, "{names:?}");
    let files = names.iter().map(|name| compare(&golden(&format!("help/{name}.txt")), &help(&[name])));
    assert_current(files.chain([compare(&golden("help/kiln.txt"), &top)]));
}

/// Splits a command line at blanks; single quotes group.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().expect("a word").push(other),
        }
    }
    words
}

/// Texts that are followed by a random value or a time.
const RANDOM: [&str; 5] = ["/.kiln-", "Trace ID: ", "orrelation ID: ", "orrelation id ", "Timestamp: "];

fn without_random(text: &str, prefix: &str) -> String {
    let is_random = |c: char| c.is_ascii_alphanumeric() || "-:".contains(c);
    let mut parts = text.split(prefix);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let rest = part.trim_start_matches(is_random);
        let rest = if prefix == "Timestamp: " { rest.trim_start().trim_start_matches(is_random) } else { rest };
        format!("{all}{prefix}RANDOM{rest}")
    })
}

/// Runs the commands of a transcript and returns the new transcript.
fn replay(transcript: &str, folder: &Path, environment: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for line in transcript.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let mut words = words(line);
        let program = words.iter().position(|word| word == "kiln").expect("a call of kiln");
        let mut environment = environment.clone();
        for variable in words.drain(..program) {
            let (name, value) = variable.split_once('=').expect("a variable");
            environment.insert(name.to_owned(), value.to_owned());
        }
        let finished = run(folder, &environment, &words[1..]);
        let code = finished.code.map_or("none".to_owned(), |code| code.to_string());
        let output = format!("{}{}", finished.stdout, finished.stderr).replace(&folder.display().to_string(), "TMP");
        let output = RANDOM.iter().fold(output, |output, prefix| without_random(&output, prefix));
        text = format!("{text}$ {line}\n[exit code {code}]\n{}\n", trimmed(&output));
    }
    text
}

/// A copy of the input files.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages/inputs"), folder.path());
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bootstrap/example"), folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a folder");
    for entry in fs::read_dir(from).expect("read a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy a file");
        }
    }
}

/// Runs in a network namespace without routes: some commands get as far as looking for a cloud.
#[test]
fn errors_of_every_command_are_as_reviewed() {
    testkit::private().inside(check_transcripts);
}

/// Every transcript but the one that needs a running Azure.
fn check_transcripts() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden("errors")).expect("transcripts").flatten().map(|entry| entry.path()).collect();
    files.retain(|path| !path.ends_with("embedded-azure.txt"));
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    assert_current(files.iter().map(|path| {
        let folder = inputs();
        let transcript = fs::read_to_string(path).expect("a transcript");
        compare(path, &replay(&transcript, folder.path(), &BTreeMap::new()))
    }));
}

/// Errors of operations on an embedded Azure and its cluster.
#[test]
fn errors_of_the_prototype_operation_are_as_reviewed() {
    testkit::private().inside(check_prototype_transcript);
}

fn check_prototype_transcript() {
    let folder = inputs();
    let sim = Kiln::at(KILN).sim(&["--speed", "instant"]);
    fs::write(folder.path().join("ready.json"), sim.ready().to_string()).expect("write the ready line");
    let arguments = ["sim", "env", "--from", "ready.json", "--output", "json"].map(str::to_owned);
    let printed = run(folder.path(), &BTreeMap::new(), &arguments).success().json();
    let environment: BTreeMap<String, String> =
        serde_json::from_value(printed["variables"].clone()).expect("variables");
    let path = golden("errors/embedded-azure.txt");
    let transcript = fs::read_to_string(&path).expect("a transcript");
    let text = replay(&transcript, folder.path(), &environment);
    assert_current([compare(&path, &text.replace(sim.key("arm"), "https://ARM"))]);
}
