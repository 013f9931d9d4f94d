//! Quoting for bash.

/// A text that no shell variable can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {name} holds a NUL byte, which no environment variable can")]
pub struct NulByte {
    /// The variable.
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

#[cfg(test)]
mod tests {
    use super::*;

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
