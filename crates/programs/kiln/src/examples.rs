//! Tests of the examples in the help texts: every command has one, and every example is a valid command line.

use clap::{Command, CommandFactory as _, Parser as _};

use crate::Kiln;

/// A command and all its subcommands: path and help after the options.
fn commands(command: &Command, path: &str) -> Vec<(String, String)> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
    let mut all = vec![(path.to_owned(), help)];
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        all.extend(commands(inner, &format!("{path} {}", inner.get_name())));
    }
    all
}

/// The command lines of a help text. They are indented by two blanks, explanations by more.
fn command_lines(help: &str) -> impl Iterator<Item = &str> {
    help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '))
}

/// The arguments of each call of kiln in a shell command line.
fn calls(line: &str) -> Vec<Vec<&str>> {
    let mut calls = Vec::new();
    let parts = line.split(['|', '&', '>', '<', ';', '(', ')', '#', '"']);
    for part in parts {
        let words: Vec<&str> = part.split_whitespace().collect();
        if let Some(first) = words.iter().position(|word| *word == "kiln") {
            calls.push(words[first..].to_vec());
        }
    }
    calls
}

#[test]
fn every_example_is_a_valid_command_line() {
    let (mut tried, mut rejected) = (0, Vec::new());
    for (path, help) in commands(&Kiln::command(), "kiln") {
        for line in command_lines(&help) {
            for call in calls(line) {
                let error = Kiln::try_parse_from(&call).err();
                rejected.extend(error.map(|error| format!("`{path} --help` shows `{line}`: {error}")));
                tried += 1;
            }
        }
    }
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
    assert!(tried >= 60, "{tried}");
}

#[test]
fn every_command_has_an_example() {
    let all = commands(&Kiln::command(), "kiln");
    let shared = all.iter().find(|(path, _)| path == "kiln local").map_or("", |(_, help)| help);
    let mut missing = Vec::new();
    for (path, help) in &all {
        // Nested groups need no example, and `kiln local` has one list for all its commands.
        let is_group = all.iter().any(|(other, _)| other.starts_with(&format!("{path} ")));
        let also = if path.starts_with("kiln local ") { shared } else { "" };
        let mut shown = command_lines(help).chain(command_lines(also)).flat_map(calls);
        let is_shown = shown.any(|call| call.join(" ").starts_with(path.as_str()));
        let is_inner_group = is_group && path.matches(' ').count() > 1;
        if !is_shown && !is_inner_group {
            missing.push(path);
        }
    }
    assert!(missing.is_empty(), "without an example: {missing:?}");
}
