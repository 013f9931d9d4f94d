//! Quoting for systemd environment files.
//!
//! systemd unquotes such a file twice. First it reads the lines: in double quotes a backslash escapes `"`, `\`, `` ` `` and `$`. Then,
//! where a unit uses `$ARGS` as a separate word, it splits the value at white space; quotes group words and a backslash escapes the next
//! character.

use std::fmt::Write as _;

/// One line of an environment file.
pub(super) fn variable(name: &str, value: &str) -> String {
    let mut line = format!("{name}=\"");
    for c in value.chars() {
        if "\"\\`$".contains(c) {
            line.push('\\');
        }
        line.push(c);
    }
    line.push_str("\"\n");
    line
}

/// A variable that systemd splits into these words.
pub(super) fn words<'a>(name: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let mut value = String::new();
    for word in words {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(&quoted(word));
    }
    variable(name, &value)
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+,.:/@%*[]{}~^<>!()|;&#?".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut out = String::from('"');
    for c in word.chars() {
        if c == '"' || c == '\\' {
            out.push('\\');
        }
        let _ = write!(out, "{c}");
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first pass: one line `NAME="…"`.
    fn read_line(line: &str) -> (String, String) {
        let (name, rest) = line.split_once('=').expect("a name");
        let mut chars = rest.strip_prefix('"').expect("quotes").chars();
        let mut value = String::new();
        loop {
            match chars.next().expect("the end of the quotes") {
                '"' => break,
                '\\' => match chars.next().expect("an escaped character") {
                    c if "\"\\`$".contains(c) => value.push(c),
                    c => value.extend(['\\', c]),
                },
                c => value.push(c),
            }
        }
        assert_eq!(chars.as_str(), "\n");
        (name.to_owned(), value)
    }

    /// The second pass: words.
    fn split(value: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        let mut chars = value.chars();
        while let Some(c) = chars.next() {
            match (c, quote) {
                ('\\', _) => word.get_or_insert_default().extend(chars.next()),
                (c, Some(q)) if c == q => quote = None,
                ('"' | '\'', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (c, None) if " \t\n\r".contains(c) => words.extend(word.take()),
                (c, _) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn only_words_that_need_it_are_quoted() {
        assert_eq!(words("A", ["--v=2", "--x=a b"]), "A=\"--v=2 \\\"--x=a b\\\"\"\n");
        assert_eq!(variable("P", "http://p:1/$x"), "P=\"http://p:1/\\$x\"\n");
        assert_eq!(words("A", []), "A=\"\"\n");
    }

    proptest! {
        #[test]
        fn words_round_trip(given in proptest::collection::vec("[ -~äß\t]{0,12}", 0..6)) {
            let line = words("KUBELET_ARGS", given.iter().map(String::as_str));
            let (name, value) = read_line(&line);
            prop_assert_eq!(name, "KUBELET_ARGS");
            prop_assert_eq!(split(&value), given);
        }

        #[test]
        fn values_round_trip(given in "[ -~ä]{0,30}") {
            prop_assert_eq!(read_line(&variable("X", &given)).1, given);
        }
    }
}
