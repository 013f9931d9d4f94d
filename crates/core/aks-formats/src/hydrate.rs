//! Inserts the bootstrap token into custom data that a remote service rendered with a placeholder.

use crate::{Secret, from_base64, to_base64};

const PLACEHOLDER: &str = "{{.TokenID}}.{{.TokenSecret}}";

/// Custom data that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum HydrateError {
    #[error("custom data is not base64")]
    NotBase64(#[source] base64::DecodeError),
    #[error("custom data is not UTF-8 text")]
    NotText(#[source] std::string::FromUtf8Error),
}

/// Inserts the token into base64-encoded custom data.
pub fn custom_data(encoded: &str, token: &Secret) -> Result<Secret, HydrateError> {
    let bytes = from_base64(encoded).map_err(HydrateError::NotBase64)?;
    let text = String::from_utf8(bytes).map_err(HydrateError::NotText)?;
    Ok(Secret::new(to_base64(command(&text, token).expose())))
}

/// Inserts the token into a command.
pub fn command(text: &str, token: &Secret) -> Secret {
    Secret::new(text.replace(PLACEHOLDER, token.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_placeholder_is_replaced() {
        let token = Secret::new("abc.123456");
        assert_eq!(command("a-{{.TokenID}}.{{.TokenSecret}}-b", &token).expose(), "a-abc.123456-b");
        assert_eq!(custom_data(&to_base64("plain"), &token).unwrap().expose(), to_base64("plain"));
        assert!(matches!(custom_data("invalid-base64", &token), Err(HydrateError::NotBase64(_))));
        assert!(matches!(custom_data("/w==", &token), Err(HydrateError::NotText(_))));
    }
}
