//! The message of every error type, from the sources. The transcripts in `golden/errors` show messages in use, but many failures of Azure, of
//! a node or of a disk cannot be produced by a command line. This list has them all, with their placeholders.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{assert_current, compare, golden};

/// The rings whose errors a user can meet.
const RINGS: [&str; 4] = ["core", "edges", "engine", "programs"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace").map(|entry| entry.expect("an entry").path()) {
        let is_test = ["tests", "benches", "tests.rs"].iter().any(|name| entry.ends_with(name));
        if entry.is_dir() && !is_test {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") && !is_test {
            found.push(entry);
        }
    }
}

/// The messages of `#[error(...)]` attributes, each with the name of the variant or type that follows it.
fn messages(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut all = Vec::new();
    for part in product.split("#[error(").skip(1) {
        let Some((message, rest)) = literal(part.trim_start()) else { continue };
        all.push(format!("{}: {message}", item(rest)));
    }
    all
}

/// The string literal at the start of a text, and the text after it.
fn literal(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut message = String::new();
    let mut characters = body.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((message, &body[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => message.push_str("\\n"),
                // A line break in the source, with the indentation of the next line.
                '\n' => {
                    while characters.clone().next().is_some_and(|(_, c)| c == ' ') {
                        characters.next();
                    }
                }
                other => message.push(other),
            },
            other => message.push(other),
        }
    }
    None
}

fn item(rest: &str) -> &str {
    let after = rest.split_once(")]").map_or("", |(_, after)| after);
    let line = after
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()))
        .unwrap_or_default();
    let name = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").trim_start_matches("struct ");
    name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

#[test]
fn message_of_every_error_is_as_reviewed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for ring in RINGS {
        sources(&crates.join(ring), &mut files);
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        let found = messages(&fs::read_to_string(&file).expect("a source file"));
        if !found.is_empty() {
            let path = file.strip_prefix(&crates).expect("a path below crates");
            let _ = writeln!(text, "{}\n  {}", path.display(), found.join("\n  "));
        }
    }
    assert_current([compare(&golden("variants.txt"), &text)]);
}

#[test]
fn messages_are_read_across_line_breaks_and_with_their_variants() {
    let source = "enum E {\n    #[error(\n        \"a `{x}`; \\\n         b\\nhint: c\"\n    )]\n    #[source]\n    First { x: u8 },\n    #[error(transparent)]\n    Second(F),\n}\n#[error(\"d\")]\npub struct G;\n#[cfg(test)]\nmod tests { #[error(\"e\")] struct H; }\n";
    assert_eq!(messages(source), ["First: a `{x}`; b\\nhint: c", "G: d"]);
}
