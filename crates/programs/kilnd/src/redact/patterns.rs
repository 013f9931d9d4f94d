//! What looks like a secret in a text.

use super::HIDDEN;

/// Endings of the names of fields, flags and variables with a secret, in lower case and without punctuation.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "privatekey",
    "clientkeydata",
    "accesskey",
    "accountkey",
    "sharedkey",
    "apikey",
    "authorization",
    "identitytoken",
    "protectedsettings",
];
/// Names that are a secret only as a whole.
const WHOLE_NAMES: [&str; 3] = ["auth", "sig", "key"];
/// Words before the secret in an `Authorization` header.
const SCHEMES: [&str; 3] = ["bearer", "basic", "sharedkey"];
/// Shorter base64 may be an ordinary word or a name.
const LONG: usize = 40;

/// Whether a field, flag or variable with this name has a secret.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    NAMES.iter().any(|ending| plain.ends_with(ending)) || WHOLE_NAMES.contains(&plain.as_str())
}

/// A text without everything that looks like a secret.
pub fn redact(text: &str) -> String {
    let text = without_keys(text);
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        result.push_str(&words(&values(&urls(line))));
    }
    result
}

/// The secrets in a file that is a secret as a whole: a token, keys, or a file with named secrets.
pub fn secrets_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let trimmed = text.trim();
    if !trimmed.is_empty() && !trimmed.contains(char::is_whitespace) {
        found.push(trimmed.to_owned());
    }
    let mut is_key = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("-----") {
            is_key = line.contains("BEGIN") && line.contains("PRIVATE KEY");
        } else if is_key {
            found.push(line.to_owned());
        }
        each_value(line, |value| found.push(value.to_owned()));
        found.extend(line.split(|c: char| !is_word(c)).filter(|word| is_join_token(word)).flat_map(|word| {
            // The half after the dot is the secret.
            [word.to_owned(), word.split('.').next_back().unwrap_or_default().to_owned()]
        }));
    }
    found
}

/// Replaces the bodies of private keys in PEM, also if line feeds are escaped.
fn without_keys(text: &str) -> String {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("PRIVATE KEY-----") {
        let body = start + "PRIVATE KEY-----".len();
        result.push_str(&rest[..body]);
        result.push_str(HIDDEN);
        // A truncated key has no end.
        rest = rest[body..].find("-----END").map_or("", |end| &rest[body + end..]);
        // Skip the name in the end line, which contains the same words.
        if let Some(end) = rest.find("PRIVATE KEY-----") {
            result.push_str(&rest[..end + "PRIVATE KEY-----".len()]);
            rest = &rest[end + "PRIVATE KEY-----".len()..];
        }
    }
    result + rest
}

/// Replaces user and password in URLs.
fn urls(line: &str) -> String {
    let (mut result, mut rest) = (String::with_capacity(line.len()), line);
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        result.push_str(head);
        let end = tail.find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c)).unwrap_or(tail.len());
        rest = match tail[..end].rfind('@') {
            Some(user) => {
                result.push_str(HIDDEN);
                &tail[user..]
            }
            None => tail,
        };
    }
    result + rest
}

/// Replaces the values of named secrets.
fn values(line: &str) -> String {
    let mut ranges = Vec::new();
    each_value(line, |value| {
        let start = value.as_ptr() as usize - line.as_ptr() as usize;
        ranges.push(start..start + value.len());
    });
    let (mut result, mut last) = (String::with_capacity(line.len()), 0);
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        if range.start < last {
            continue;
        }
        result.push_str(&line[last..range.start]);
        result.push_str(HIDDEN);
        last = range.end;
    }
    result + &line[last..]
}

/// Calls `take` with the value of each named secret: `name=value`, `name: value`, `"name": "value"`, `--name value`.
fn each_value<'l>(line: &'l str, mut take: impl FnMut(&'l str)) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut at = 0;
    while let Some(start) = line[at..].find(is_name).map(|start| at + start) {
        let end = line[start..].find(|c| !is_name(c)).map_or(line.len(), |end| start + end);
        at = end;
        let name = &line[start..end];
        if !is_secret_name(name.rsplit('.').next().unwrap_or(name)) {
            continue;
        }
        let after = line[end..].trim_start_matches(['"', '\'', '\\', ']']);
        let spaced = after.trim_start();
        let rest = match spaced.chars().next() {
            Some('=' | ':') => spaced[1..].trim_start_matches(['=', '>']),
            Some(_) if name.starts_with("--") && after.starts_with(' ') => spaced,
            _ => continue,
        };
        let mut value = first_value(rest);
        if SCHEMES.contains(&value.to_ascii_lowercase().as_str()) {
            let from = value.as_ptr() as usize - line.as_ptr() as usize + value.len();
            value = first_value(&line[from..]);
        }
        // A path names a secret and is not one. Flags and nulls are not secrets either.
        let is_harmless = value.starts_with('/') || ["true", "false", "null", "none", "{", "["].contains(&value);
        if !value.is_empty() && !is_harmless {
            take(value);
            at = value.as_ptr() as usize - line.as_ptr() as usize + value.len();
        }
    }
}

/// The first value of a text: up to the closing quote, else up to white space or a separator.
fn first_value(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t', '\\']);
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = &text[1..];
            inner[..inner.find(quote).unwrap_or(inner.len())].trim_end_matches('\\')
        }
        _ => &text[..text.find(|c: char| c.is_whitespace() || "\"',;&)}]<>".contains(c)).unwrap_or(text.len())],
    }
}

/// Replaces words that are tokens or long base64 texts by themselves.
fn words(line: &str) -> String {
    let (mut result, mut at) = (String::with_capacity(line.len()), 0);
    while let Some(start) = line[at..].find(is_word).map(|start| at + start) {
        result.push_str(&line[at..start]);
        let end = line[start..].find(|c| !is_word(c)).map_or(line.len(), |end| start + end);
        let word = &line[start..end];
        result.push_str(if is_join_token(word) || is_web_token(word) || is_key(word) { HIDDEN } else { word });
        at = end;
    }
    result + &line[at..]
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+/=".contains(c)
}

/// A bootstrap token: six characters, a dot and sixteen characters.
fn is_join_token(word: &str) -> bool {
    let is_part =
        |part: &str, length| part.len() == length && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    word.trim_end_matches('.').split_once('.').is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

/// A JSON web token: its header is base64 of `{"`.
fn is_web_token(word: &str) -> bool {
    word.starts_with("eyJ") && word.matches('.').count() >= 2
}

/// Long base64 with letters of both cases and digits. Hashes in hexadecimal digits and paths are not.
fn is_key(word: &str) -> bool {
    let is_base64 = word.len() >= LONG && !word.contains('.');
    let has = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    let longest = word.split('/').map(str::len).max().unwrap_or_default();
    is_base64
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
        && longest >= 20
        && word.matches('-').count() <= word.len() / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_every_kind_are_replaced() {
        for (text, expected) in [
            ("joined with abcdef.0123456789abcdef.", "joined with ***"),
            ("KUBELET_ARGS=--token=abc --v=2", "KUBELET_ARGS=--token=*** --v=2"),
            ("run --token abc --v 2", "run --token *** --v 2"),
            ("\"password\": \"a b\", \"user\": \"c\"", "\"password\": \"***\", \"user\": \"c\""),
            (
                "{\\\"aadClientSecret\\\":\\\"hunter2\\\",\\\"x\\\":1}",
                "{\\\"aadClientSecret\\\":\\\"***\\\",\\\"x\\\":1}",
            ),
            ("password = 'hunter2'", "password = '***'"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("https://me:hunter2@proxy.example:3128/x", "https://***@proxy.example:3128/x"),
            ("https://a.blob/x?sv=1&sig=ab%2Fc&se=2", "https://a.blob/x?sv=1&sig=***&se=2"),
            ("AccountKey=abc==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"),
            ("client-key-data: LS0tLS1", "client-key-data: ***"),
            ("got eyJhbGciOi.eyJzdWIi.c2ln", "got ***"),
            ("key cXVpdGVBTG9uZ0tleVdpdGhNYW55Qnl0ZXMwMTIzNDU2Nzg5", "key ***"),
            (
                "-----BEGIN EC PRIVATE KEY-----\nc2Vj\n-----END EC PRIVATE KEY-----\nrest",
                "-----BEGIN EC PRIVATE KEY-----***-----END EC PRIVATE KEY-----\nrest",
            ),
            ("a -----BEGIN PRIVATE KEY-----\\nc2VjcmV0", "a -----BEGIN PRIVATE KEY-----***"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
            assert_eq!(redact(expected), expected, "a second pass changes nothing");
        }
    }

    #[test]
    fn ordinary_texts_stay() {
        for text in [
            "generation 3 (0123456789ab) is in force",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "tokenFile: /var/run/token, secretName: x",
            "--bootstrap-kubeconfig=/etc/kiln/current/bootstrap-kubeconfig --cert-dir=/var/lib/kubelet/pki",
            "token: /etc/kiln/token",
            "reading /usr/lib/systemd/system/kubelet.service.d/10-kiln.conf and /var/lib/Example/Two1/three",
            "https://prod.example:443/api?x=1",
            "rotating the token failed",
            "pod 11111111-2222-3333-4444-555555555555 of node-7",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn secrets_of_a_file_are_found() {
        assert_eq!(
            secrets_in("abcdef.0123456789abcdef\n"),
            ["abcdef.0123456789abcdef", "abcdef.0123456789abcdef", "0123456789abcdef"]
        );
        let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nc2Vj\n-----END PRIVATE KEY-----\n";
        assert_eq!(secrets_in(pem), ["c2Vj"]);
        assert_eq!(secrets_in("users: [{user: {token: very-secret}}]"), ["very-secret"]);
    }
}
