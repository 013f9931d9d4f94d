//! Files that people write.

use serde::de::DeserializeOwned;

/// Reads YAML, or the default from nothing. An error begins with the file's name and shows the place.
pub(crate) fn parse<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, String> {
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    serde_saphyr::from_str(text).map_err(|error| {
        // The reader begins with a word of its own and does not know the file's name.
        let problem = error.to_string().replace("--> <input>:", &format!("--> {name}:"));
        format!("{name}: {}", problem.strip_prefix("error: ").unwrap_or(&problem))
    })
}
