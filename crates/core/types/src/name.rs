//! Names with a grammar.

/// A name that a cloud, or the API server of a cluster, would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is no {noun}: {rule}")]
pub struct BadName {
    /// What was being named.
    pub noun: &'static str,
    /// The refused text.
    pub input: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

/// A name with a grammar: a text that was checked when it was made, and is checked again when it is read back from a journal. The crate
/// that uses it has `serde`.
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
    /// The name of a pool: the nodes that one recipe makes.
    PoolName, "pool name", "1 to 64 letters, digits, `-`, `_` or `.`, first and last a letter, digit or (last) `_`",
    |s| edges_are_plain(s) && within(s, 1, 64) && made_of(s, "-_.")
}

name! {
    /// What tells an instance from the others of its pool.
    InstanceId, "instance id", "1 to 80 letters, digits, `-` or `_`",
    |s| within(s, 1, 80) && made_of(s, "-_")
}

name! {
    /// The name of a copy of a disk.
    SnapshotName, "snapshot name", "1 to 80 letters, digits, `-`, `_` or `.`, first and last a letter, digit or (last) `_`",
    |s| edges_are_plain(s) && within(s, 1, 80) && made_of(s, "-_.")
}

name! {
    /// The name of a gallery of images. It has no hyphen, unlike most names.
    GalleryName, "gallery name", "1 to 80 letters, digits, `_` or `.`, first and last a letter or digit",
    |s| within(s, 1, 80) && made_of(s, "_.") && s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric())
}

name! {
    /// The name of a machine that was launched by itself, outside a pool.
    MachineName, "machine name", "1 to 64 letters, digits or `-`, first and last a letter or digit",
    |s| within(s, 1, 64) && made_of(s, "-") && s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric())
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
    fn a_refused_name_is_shown_with_its_rule() {
        let error = "a/b".parse::<PoolName>().unwrap_err();
        assert_eq!(error.input, "a/b");
        assert!(error.to_string().starts_with("`a/b` is no pool name: "), "{error}");
    }

    #[test]
    fn a_gallery_name_has_no_hyphen_and_a_pool_name_may() {
        assert!("SIG_my-group".parse::<GalleryName>().is_err());
        assert!("k8s-agentpool1-26100436-vmss".parse::<PoolName>().is_ok());
    }

    #[test]
    fn a_name_in_a_journal_is_checked_when_it_is_read_back() {
        assert!(serde_json::from_str::<InstanceId>("\"../x\"").is_err());
        let id: InstanceId = serde_json::from_str("\"36\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"36\"");
    }

    #[test]
    fn lengths_are_counted_at_both_ends() {
        assert!("".parse::<PoolName>().is_err());
        assert!("p".repeat(64).parse::<PoolName>().is_ok());
        assert!("p".repeat(65).parse::<PoolName>().is_err());
    }
}
