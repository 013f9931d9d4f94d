//! Names, checked when they are parsed.

/// Text that is not a valid name, version or taint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {noun} `{input}`: expected {rule}")]
pub struct BadName {
    /// The kind of name, for example `run id`.
    pub noun: &'static str,
    pub input: String,
    /// The expected form.
    pub rule: &'static str,
}

/// Defines a name type: a string that is checked when it is parsed, also when it is deserialised from a journal. The calling crate needs
/// `serde`.
#[macro_export]
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $noun:literal, $rule:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::BadName;

            fn try_from(input: String) -> Result<Self, $crate::BadName> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(&input) {
                    Ok(Self(input))
                } else {
                    Err($crate::BadName { noun: $noun, input, rule: $rule })
                }
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::BadName;

            fn from_str(input: &str) -> Result<Self, $crate::BadName> {
                Self::try_from(input.to_owned())
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of a pool.
    PoolName, "pool name", "1 to 64 letters, digits, `-`, `_` or `.`, first and last a letter, digit or (last) `_`",
    |s| edges_are_plain(s) && within(s, 1, 64) && made_of(s, "-_.")
}

name! {
    /// The id of an instance, unique in its pool.
    InstanceId, "instance id", "1 to 80 letters, digits, `-` or `_`",
    |s| within(s, 1, 80) && made_of(s, "-_")
}

name! {
    /// The name of a snapshot.
    SnapshotName, "snapshot name", "1 to 80 letters, digits, `-`, `_` or `.`, first and last a letter, digit or (last) `_`",
    |s| edges_are_plain(s) && within(s, 1, 80) && made_of(s, "-_.")
}

name! {
    /// The name of a gallery. Unlike most names it has no hyphens.
    GalleryName, "gallery name", "1 to 80 letters, digits, `_` or `.`, first and last a letter or digit",
    |s| within(s, 1, 80) && made_of(s, "_.") && s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric())
}

name! {
    /// The name of a machine that was launched outside of a pool.
    MachineName, "machine name", "1 to 64 letters, digits or `-`, first and last a letter or digit",
    |s| within(s, 1, 64) && made_of(s, "-") && s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric())
}

name! {
    /// The name of a Kubernetes node.
    NodeName, "node name", "1 to 253 of `a-z`, `0-9`, `-` and `.`, each part between dots starting and ending with a letter or digit",
    |s| within(s, 1, 253) && s.split('.').all(is_dns_label)
}

/// Whether a text consists of `a-z`, `0-9` and `-` and starts and ends with a letter or digit. Its length is not checked.
pub fn is_dns_label(s: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = s.as_bytes();
    bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
}

fn within(s: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&s.len())
}

fn made_of(s: &str, also: &str) -> bool {
    s.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

fn edges_are_plain(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_the_input_and_the_expected_form() {
        let error = "a/b".parse::<PoolName>().unwrap_err();
        assert_eq!(error.input, "a/b");
        assert!(error.to_string().starts_with("invalid pool name `a/b`: expected 1 to 64 "), "{error}");
    }

    #[test]
    fn gallery_names_have_no_hyphen_and_pool_names_may() {
        assert!("SIG_my-group".parse::<GalleryName>().is_err());
        assert!("k8s-agentpool1-26100436-vmss".parse::<PoolName>().is_ok());
    }

    #[test]
    fn deserialised_name_is_checked() {
        assert!(serde_json::from_str::<InstanceId>("\"../x\"").is_err());
        let id: InstanceId = serde_json::from_str("\"36\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"36\"");
    }

    #[test]
    fn shortest_and_longest_names_are_accepted() {
        assert!("".parse::<PoolName>().is_err());
        assert!("p".repeat(64).parse::<PoolName>().is_ok());
        assert!("p".repeat(65).parse::<PoolName>().is_err());
    }
}
