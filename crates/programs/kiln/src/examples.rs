//! Every command shows examples, and each of them is a command line that the program understands.

use clap::{Command, CommandFactory as _, Parser as _};

use crate::Kiln;

/// The commands below one, with the words that lead to them.
fn below(command: &Command, path: &str) -> Vec<(String, String)> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
    let mut found = vec![(path.to_owned(), help)];
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        found.extend(below(inner, &format!("{path} {}", inner.get_name())));
    }
    found
}

/// The command lines of a help text: two blanks, then what somebody types. Explanations stand further in.
fn typed(help: &str) -> impl Iterator<Item = &str> {
    help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '))
}

/// The words of each kiln in a line of a shell.
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
fn every_example_is_a_command_line_of_this_program() {
    let (mut tried, mut refused) = (0, Vec::new());
    for (path, help) in below(&Kiln::command(), "kiln") {
        for line in typed(&help) {
            for call in calls(line) {
                let error = Kiln::try_parse_from(&call).err();
                refused.extend(error.map(|error| format!("`{path} --help` shows `{line}`: {error}")));
                tried += 1;
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(tried >= 60, "{tried}");
}

#[test]
fn every_command_shows_an_example_of_itself() {
    let all = below(&Kiln::command(), "kiln");
    let together = all.iter().find(|(path, _)| path == "kiln local").map_or("", |(_, help)| help);
    let mut silent = Vec::new();
    for (path, help) in &all {
        // A group within a group is its commands, and the small ones of `kiln local` are shown together.
        let is_group = all.iter().any(|(other, _)| other.starts_with(&format!("{path} ")));
        let also = if path.starts_with("kiln local ") { together } else { "" };
        let mut shown = typed(help).chain(typed(also)).flat_map(calls);
        let is_shown = shown.any(|call| call.join(" ").starts_with(path.as_str()));
        let is_inner_group = is_group && path.matches(' ').count() > 1;
        if !is_shown && !is_inner_group {
            silent.push(path);
        }
    }
    assert!(silent.is_empty(), "{silent:?} show no example of themselves");
}
