//! Detection of secrets inside the content of a file: JSON, and lines of YAML, TOML, INI, shell and unit files. Keys decide, by their names, because a
//! password has no shape; a key whose value is a path, a variable or a placeholder does not count.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Endings of key names, in lower case and without separators.
const SECRET_ENDINGS: [&str; 25] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "privatekey",
    "clientkeydata",
    "accesskey",
    "accesskeyid",
    "apikey",
    "accountkey",
    "storagekey",
    "sharedkey",
    "sharedaccesskey",
    "secretkey",
    "secretaccesskey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "workspacekey",
    "subscriptionkey",
    "connectionstring",
    "adminpass",
    "sastoken",
    "presharedkey",
];

/// Whole key names.
const SECRET_NAMES: [&str; 3] = ["pwd", "psk", "sas"];

/// Values that are not secrets: AKS writes `msi` for a managed identity.
const PLACEHOLDERS: [&str; 14] = [
    "msi",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "null",
    "none",
    "nil",
    "~",
    "changeme",
    "redacted",
    "placeholder",
];

/// The name services of `nsswitch.conf`, where `passwd` is a database.
const NAME_SERVICES: [&str; 10] =
    ["files", "compat", "systemd", "sss", "ldap", "db", "nis", "winbind", "altfiles", "extrausers"];

/// A key with a secret value in a text, and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretKey {
    pub(crate) key: String,
    pub(crate) looks_like: &'static str,
}

/// The first key in a text that has a secret value.
pub(crate) fn find(text: &str) -> Option<SecretKey> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    match is_json.then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(value)) => in_json("", &value),
        _ => in_lines(text),
    }
}

/// Whether a key name is that of a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let small: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.contains(&small.as_str()) || SECRET_ENDINGS.iter().any(|ending| small.ends_with(ending))
}

fn in_json(path: &str, value: &Value) -> Option<SecretKey> {
    match value {
        Value::Object(fields) => {
            // An environment variable of a container.
            if let (Some(Value::String(name)), Some(Value::String(value))) = (fields.get("name"), fields.get("value"))
                && let Some(found) = in_pair(name, value)
            {
                return Some(SecretKey { key: below(path, &found.key), ..found });
            }
            fields.iter().find_map(|(key, value)| match value {
                Value::String(text) => {
                    let nested = || text.contains('\n').then(|| in_lines(text)).flatten();
                    let found = in_pair(key, text).or_else(nested)?;
                    Some(SecretKey { key: below(path, &found.key), ..found })
                }
                other => in_json(&below(path, key), other),
            })
        }
        Value::Array(all) => all.iter().enumerate().find_map(|(at, value)| in_json(&format!("{path}[{at}]"), value)),
        _ => None,
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn in_lines(text: &str) -> Option<SecretKey> {
    let mut name = "";
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) || line.starts_with("//") {
            continue;
        }
        let Some((key, value)) = pair(line) else {
            if let Some(found) = in_words(line) {
                return Some(found);
            }
            continue;
        };
        // An environment variable of a container has its name in the line before its value.
        let found = if key == "value" { in_pair(name, value) } else { None };
        name = if key == "name" { unquoted(value) } else { name };
        let found = found.or_else(|| in_pair(key, value)).or_else(|| in_words(line));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The key and the value of a line: `key: value`, `key = value`, `export KEY=value` or `- key: value`.
fn pair(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches("- ").trim_start_matches("export ").trim_start();
    let at = line.find([':', '='])?;
    let key = unquoted(line[..at].trim_end());
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    is_key.then(|| (key, line[at + 1..].trim()))
}

/// Arguments of commands (`--token=x`, `--password x`), assignments inside a line, and parts of connection strings.
fn in_words(line: &str) -> Option<SecretKey> {
    let words: Vec<&str> = line.split([' ', '\t', ';', ',', '"', '\'']).filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((key, value)) => {
            let key = key.trim_start_matches("--");
            // A unit file has `Environment=KEY=value`.
            let nested = || value.split_once('=').and_then(|(key, value)| in_pair(key, value));
            let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
            in_pair(key, value).filter(|_| is_key).or_else(nested)
        }
        None if word.starts_with("--") => {
            let value = words.get(at + 1).filter(|next| !next.starts_with('-'))?;
            in_pair(&word[2..], value)
        }
        None if matches!(*word, "Bearer" | "Basic") => {
            let value = words.get(at + 1)?;
            (is_secret_value(value) && value.len() >= 12)
                .then(|| SecretKey { key: (*word).to_owned(), looks_like: "a credential in a header" })
        }
        None => None,
    })
}

fn in_pair(key: &str, value: &str) -> Option<SecretKey> {
    let value = unquoted(value);
    let small = key.to_ascii_lowercase();
    let found = |looks_like| Some(SecretKey { key: key.to_owned(), looks_like });
    if small == "auth" && has_user_and_password(value) {
        return found("a registry credential");
    }
    if !is_secret_name(key) || !is_secret_value(value) {
        return None;
    }
    let is_service = |word: &str| word.starts_with('[') || NAME_SERVICES.contains(&word);
    let is_database = small == "passwd" && value.split_whitespace().all(is_service);
    if is_database { None } else { found("a key with a secret") }
}

/// Whether the value of a secret key can be a secret itself.
fn is_secret_value(value: &str) -> bool {
    let starts_elsewhere = value.starts_with(['/', '$', '<', '{', '[', '%', '*', '|', '>', '&', '@']);
    let is_small_number = value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_placeholder = PLACEHOLDERS.iter().any(|placeholder| value.eq_ignore_ascii_case(placeholder));
    // A sentence, as in the template of openssl.cnf: `challengePassword = A challenge password`.
    let is_prose = value.split_whitespace().count() > 2;
    let is_masked = value.bytes().all(|byte| b"xX.*-_#".contains(&byte));
    !value.is_empty() && !starts_elsewhere && !is_small_number && !is_placeholder && !is_prose && !is_masked
}

/// Whether a value is `user:password` in base64, as in the configuration of registries.
fn has_user_and_password(value: &str) -> bool {
    let decoded = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.is_some_and(|text| {
        text.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
    })
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_end_matches([',', ';']).trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_keys_are_found_in_every_format() {
        for (text, key) in [
            (r#"{"cloud": "x", "aadClientId": "id", "aadClientSecret": "hunter2"}"#, "aadClientSecret"),
            (r#"{"a": [{"deep": {"aadClientCertPassword": "p"}}]}"#, "a[0].deep.aadClientCertPassword"),
            (r#"{"auths": {"r.io": {"auth": "dXNlcjpwYXNz"}}}"#, "auths.r.io.auth"),
            (r#"{"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}"#, "env[0].DB_PASSWORD"),
            ("users:\n- name: kubelet\n  user:\n    token: abcdefghij\n", "token"),
            ("env:\n- name: DB_PASSWORD\n  value: hunter2\n", "DB_PASSWORD"),
            ("[auth]\nusername = \"u\"\npassword = \"hunter2\"\n", "password"),
            ("export AZURE_CLIENT_SECRET='hunter2'\n", "AZURE_CLIENT_SECRET"),
            ("[Service]\nEnvironment=\"API_KEY=hunter2\"\n", "API_KEY"),
            ("[Service]\nEnvironment=A=b SECRET_KEY=hunter2\n", "SECRET_KEY"),
            ("[Service]\nExecStart=/usr/bin/x --client-secret hunter2 --v=2\n", "client-secret"),
            ("ExecStart=/usr/bin/x --token=hunter2\n", "token"),
            (
                "url=DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aGVsbG8gd29ybGQ=;EndpointSuffix=x\n",
                "AccountKey",
            ),
            ("Server=tcp:db;User ID=u;Password=hunter2;Encrypt=true\n", "Password"),
            ("Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=aGVsbG8=\n", "SharedAccessKey"),
            ("header: 'Authorization: Bearer abcdefghijklmnop'\n", "Bearer"),
            ("psk=hunter22\n", "psk"),
        ] {
            assert_eq!(find(text).map(|found| found.key).as_deref(), Some(key), "{text}");
        }
    }

    #[test]
    fn names_paths_variables_and_placeholders_are_not_secrets() {
        for text in [
            r#"{"aadClientId": "msi", "aadClientSecret": "msi", "aadClientCertPassword": ""}"#,
            r#"{"kind": "Secret", "secretName": "x", "tokenFile": "/run/token", "automountServiceAccountToken": false}"#,
            "passwd:         files systemd\ngroup:          files systemd\nshadow: files\n",
            "passwd: files [NOTFOUND=return]\n",
            "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n",
            "password requisite pam_pwquality.so retry=3\n",
            "PasswordAuthentication no\nPermitEmptyPasswords no\n",
            "# password = hunter2\n; token = x\n// secret: x\n",
            "token: ${TOKEN}\npassword: \"{{ password }}\"\nsecret: <your secret>\nprivateKey: /etc/ssl/key.pem\n",
            "secret:\n  name: x\n",
            "automountServiceAccountToken: false\nmaxToken: 100\n",
            "LoadCredential=token:/etc/token\nEnvironmentFile=/etc/default/token\n",
            "ExecStart=/usr/bin/x --token-file=/run/token --token ${TOKEN}\n",
            "authorization-mode: Webhook\nauthentication-token-webhook: \"true\"\n",
            "root:x:0:0:root:/root:/bin/bash\n",
            "PWD=/var/lib\n",
            "challengePassword = A challenge password\n",
            "kernel.keys.root_maxkeys = 1000000\n",
            "",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn search_never_panics() {
        for text in ["--", "=", ":", "--token", "Bearer", "\u{e9}=\u{e9}", "- ", "export ", "{", "a=b=c=", "'"] {
            let _ = find(text);
        }
    }
}
