//! Quoting and parsing of bash assignments.

use std::collections::BTreeMap;

/// A value with a NUL byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of `{name}` contains a NUL byte, which an environment variable cannot contain")]
pub struct NulByte {
    pub name: String,
}

/// Quotes a text with single quotes, in which a shell expands nothing. A single quote inside is written as `'\''`.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for (index, part) in text.split('\'').enumerate() {
        if index > 0 {
            quoted.push_str("'\\''");
        }
        quoted.push_str(part);
    }
    quoted.push('\'');
    quoted
}

/// Formats one assignment, `NAME='value'`, with a newline.
pub fn assignment(name: &str, text: &str) -> Result<String, NulByte> {
    if text.contains('\0') {
        return Err(NulByte { name: name.to_owned() });
    }
    Ok(format!("{name}={}\n", quote(text)))
}

/// Parses assignments as [`assignment`] writes them. Returns `None` if the text contains anything else.
pub fn assignments(text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, value) = rest.split_once("='")?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return None;
        }
        let mut plain = String::new();
        let mut inside = value;
        loop {
            let (part, after) = inside.split_once('\'')?;
            plain.push_str(part);
            if let Some(after) = after.strip_prefix("\\''") {
                plain.push('\'');
                inside = after;
            } else {
                rest = after.strip_prefix('\n')?;
                break;
            }
        }
        found.insert(name.to_owned(), plain);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn assignments_survive_a_round_trip(values in proptest::collection::vec("[^\0]{0,20}", 0..6)) {
            let named = values.iter().enumerate().map(|(index, value)| (format!("N_{index}"), value.clone()));
            let named: BTreeMap<String, String> = named.collect();
            let text: String = named.iter().map(|(name, value)| assignment(name, value).unwrap()).collect();
            prop_assert_eq!(assignments(&text), Some(named));
        }

        #[test]
        fn parsing_never_panics(text in "[A-Z='\\\\\n ]{0,40}") {
            let _ = assignments(&text);
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in ["A=b\n", "A='b", "A='b'", "echo 'a'\n", "A='b' c\n"] {
            assert_eq!(assignments(text), None, "{text}");
        }
    }

    #[test]
    fn single_quotes_are_escaped() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn nul_byte_is_rejected_with_the_variable_name() {
        assert_eq!(assignment("A", "x\0y"), Err(NulByte { name: "A".to_owned() }));
    }
}
