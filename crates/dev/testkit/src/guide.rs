//! Guides whose commands a test runs. A command is a line that starts with `$ ` in a `console` block; the lines below it are its output.

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text to keep as it is.
    Text(String),
    /// A command with its documented output.
    Typed { command: String, prints: String },
}

/// Splits a page at the commands of its `console` blocks. A command continues after a backslash, and a here-document until `END`.
pub fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut is_console, mut is_document) = (false, false);
    for line in page.split_inclusive('\n') {
        if line.starts_with("```") {
            is_console = line.trim_end() == "```console";
            parts.push(Part::Text(line.to_owned()));
        } else if !is_console {
            parts.push(Part::Text(line.to_owned()));
        } else if let (Some(first), false) = (line.strip_prefix("$ "), is_document) {
            is_document = first.contains("<<'END'");
            parts.push(Part::Typed { command: first.to_owned(), prints: String::new() });
        } else if let Some(Part::Typed { command, prints }) = parts.last_mut() {
            if is_document || command.ends_with("\\\n") {
                is_document &= line != "END\n";
                command.push_str(line);
            } else {
                prints.push_str(line);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_continued_lines_documents_and_output() {
        let page = "text\n```console\n$ a \\\n  b\nout\n$ cat <<'END'\n$ c\nEND\n```\n```sh\n$ d\n```\n";
        let typed: Vec<Part> = parts(page).into_iter().filter(|part| matches!(part, Part::Typed { .. })).collect();
        let part = |command: &str, prints: &str| Part::Typed { command: command.to_owned(), prints: prints.to_owned() };
        assert_eq!(typed, [part("a \\\n  b\n", "out\n"), part("cat <<'END'\n$ c\nEND\n", "")]);
    }
}
