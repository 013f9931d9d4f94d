//! Configuration files in YAML.

use serde::de::DeserializeOwned;

/// Parses YAML; an empty text gives the default. Errors start with the file name and show the position.
pub(crate) fn parse<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, String> {
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    serde_saphyr::from_str(text).map_err(|error| {
        // Removes the parser's prefix, which does not contain the file name.
        let problem = error.to_string().replace("--> <input>:", &format!("--> {name}:"));
        format!("{name}: {}", problem.strip_prefix("error: ").unwrap_or(&problem))
    })
}
