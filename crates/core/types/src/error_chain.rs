//! Messages of an error and of its causes.

use std::error::Error;

/// The message of an error, followed by those of its causes.
///
/// Many errors already contain the text of their cause. A message that an earlier one contains is left out.
pub fn messages(error: &dyn Error) -> Vec<String> {
    let mut messages = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !messages.iter().any(|earlier| earlier.contains(&message)) {
            messages.push(message);
        }
        source = cause.source();
    }
    messages
}

/// The same on one line, separated by colons, for logs and journals.
pub fn to_line(error: &dyn Error) -> String {
    messages(error).join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn causes_that_an_earlier_message_contains_are_left_out() {
        let inner = Layer("no such file", None);
        let middle = Layer("cannot read x: no such file", Some(Box::new(inner)));
        let outer = Layer("cannot start", Some(Box::new(middle)));
        assert_eq!(messages(&outer), ["cannot start", "cannot read x: no such file"]);
        assert_eq!(to_line(&outer), "cannot start: cannot read x: no such file");
    }
}
