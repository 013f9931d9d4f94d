//! Names with a grammar, and the names of kiln's objects in the cluster.

pub use kiln_types::NodeName;
use kiln_types::hash::fnv1a_32;
use kiln_types::{PoolName, is_dns_label, name};

name! {
    /// The name of a namespace.
    Namespace, "namespace", "1 to 63 of `a-z`, `0-9` and `-`, starting and ending with a letter or digit",
    |s| (1..=63).contains(&s.len()) && is_dns_label(s)
}

name! {
    /// The holder of a node or a lease: the unique id of one run.
    Owner, "owner", "1 to 128 letters, digits, `-`, `_`, `.`, `:` or `/`",
    |s| (1..=128).contains(&s.len()) && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c))
}

/// The name of an object of kiln's for a pool. Azure compares pool names without case, so lower case is unambiguous. A pool name with
/// characters that an object name cannot have gets a hash appended, so that `a_b` and `a-b` share neither lease nor journal.
pub(crate) fn object_name(prefix: &str, pool: &PoolName) -> String {
    let lower = pool.as_str().to_ascii_lowercase();
    if is_dns_label(&lower) {
        return format!("{prefix}-{lower}");
    }
    let plain: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{prefix}-{plain}-{:08x}", fnv1a_32(lower.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_change_the_request_are_rejected() {
        for bad in ["", "a/b", "../x", "Node", "n,spec.nodeName=other", "-n", "n-", "a..b"] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
        assert!("k8s-pool-1-vmss000000".parse::<NodeName>().is_ok());
        assert!("ip-10-0-0-1.internal".parse::<NodeName>().is_ok());
    }

    #[test]
    fn pools_with_similar_names_have_different_objects() {
        let object = |pool: &str| object_name("kiln", &pool.parse().unwrap());
        assert_eq!(object("Pool-1"), "kiln-pool-1");
        let names = ["a-b", "a_b", "a.b", "a_b_"].map(object);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        for name in &names {
            assert!(name.parse::<NodeName>().is_ok(), "{name} is not an object name");
        }
    }
}
