//! Quoting for bash.

use std::collections::BTreeMap;

/// A text that no shell variable can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {name} holds a NUL byte, which no environment variable can")]
pub struct NulByte {
    pub name: String,
}

/// The text in single quotes: nothing inside them means anything to a shell, and a quote is written by leaving and entering them.
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

/// One assignment, `NAME='value'`, with a line end.
pub fn assignment(name: &str, text: &str) -> Result<String, NulByte> {
    if text.contains('\0') {
        return Err(NulByte { name: name.to_owned() });
    }
    Ok(format!("{name}={}\n", quote(text)))
}

/// The assignments of a text in the form that [`assignment`] writes, name to value. None where something else stands there.
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
        fn what_is_written_is_read_back(values in proptest::collection::vec("[^\0]{0,20}", 0..6)) {
            let named = values.iter().enumerate().map(|(index, value)| (format!("N_{index}"), value.clone()));
            let named: BTreeMap<String, String> = named.collect();
            let text: String = named.iter().map(|(name, value)| assignment(name, value).unwrap()).collect();
            prop_assert_eq!(assignments(&text), Some(named));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[A-Z='\\\\\n ]{0,40}") {
            let _ = assignments(&text);
        }
    }

    #[test]
    fn other_lines_are_no_assignments() {
        for text in ["A=b\n", "A='b", "A='b'", "echo 'a'\n", "A='b' c\n"] {
            assert_eq!(assignments(text), None, "{text}");
        }
    }

    #[test]
    fn a_quote_is_written_outside_the_quotes() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_value_with_a_nul_byte_is_refused_by_the_name_of_its_variable() {
        assert_eq!(assignment("A", "x\0y"), Err(NulByte { name: "A".to_owned() }));
    }
}
