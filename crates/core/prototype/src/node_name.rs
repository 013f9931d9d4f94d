//! A node's name tells its pool and its instance: the last six characters are the instance's number in base 36.

use kiln_types::{InstanceId, PoolName};

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const SUFFIX: usize = 6;

/// A name or number that no instance has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadNodeName {
    /// The name is not made of a pool's name and six characters of base 36.
    #[error("node `{0}` is not a pool's name followed by six characters `0-9a-z`")]
    Form(String),
    /// The part before the six characters names no pool.
    #[error("node `{node}` names no pool")]
    Pool {
        node: String,
        /// Why not.
        source: kiln_types::BadName,
    },
    /// The instance's id is no number, as in pools of single machines.
    #[error("instance `{0}` has no number, so its node's name cannot be told")]
    Id(String),
    /// The number needs more than six characters.
    #[error("instance `{0}` has too large a number for a node's name")]
    TooLarge(String),
}

/// The pool and the instance of a node.
pub fn instance_of(node: &str) -> Result<(PoolName, InstanceId), BadNodeName> {
    let form = || BadNodeName::Form(node.to_owned());
    let (pool, suffix) = node.len().checked_sub(SUFFIX).and_then(|at| node.split_at_checked(at)).ok_or_else(form)?;
    let mut number: u64 = 0;
    for byte in suffix.bytes() {
        // Names of nodes are lower case; the same instance is not to be had by two names.
        let digit = DIGITS.iter().position(|d| *d == byte).ok_or_else(form)?;
        number = number * 36 + digit as u64;
    }
    let pool = pool.parse().map_err(|source| BadNodeName::Pool { node: node.to_owned(), source })?;
    let id = number.to_string().parse().map_err(|_| form())?;
    Ok((pool, id))
}

/// The node of an instance.
pub fn node_of(pool: &PoolName, instance: &InstanceId) -> Result<String, BadNodeName> {
    let mut number: u64 = instance.as_str().parse().map_err(|_| BadNodeName::Id(instance.to_string()))?;
    let mut suffix = [b'0'; SUFFIX];
    for place in suffix.iter_mut().rev() {
        *place = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    if number > 0 {
        return Err(BadNodeName::TooLarge(instance.to_string()));
    }
    Ok(format!("{pool}{}", String::from_utf8_lossy(&suffix)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool() -> PoolName {
        "k8s-pool-1-vmss".parse().unwrap()
    }

    #[test]
    fn the_suffix_is_the_instance_in_base_36() {
        let id = |text: &str| instance_of(text).unwrap().1.to_string();
        assert_eq!(id("k8s-pool-1-vmss000000"), "0");
        assert_eq!(id("k8s-pool-1-vmss00000z"), "35");
        assert_eq!(id("k8s-pool-1-vmss000010"), "36");
        assert_eq!(instance_of("k8s-pool-1-vmss00000a").unwrap().0, pool());
    }

    #[test]
    fn a_name_that_is_no_pool_and_suffix_is_shown() {
        for bad in ["", "00000", "pool-00000A", "pool-00é000"] {
            assert_eq!(instance_of(bad).unwrap_err(), BadNodeName::Form(bad.to_owned()), "{bad}");
        }
        assert!(matches!(instance_of("000000"), Err(BadNodeName::Pool { .. })));
    }

    #[test]
    fn an_instance_without_a_number_has_no_such_name() {
        assert!(matches!(node_of(&pool(), &"vm_1a2b".parse().unwrap()), Err(BadNodeName::Id(_))));
        assert!(matches!(node_of(&pool(), &"2176782336".parse().unwrap()), Err(BadNodeName::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn every_instance_comes_back_from_its_name(number in 0u64..36u64.pow(6)) {
            let id: InstanceId = number.to_string().parse().unwrap();
            let node = node_of(&pool(), &id).unwrap();
            prop_assert_eq!(node.len(), pool().as_str().len() + 6);
            prop_assert_eq!(instance_of(&node).unwrap(), (pool(), id));
        }
    }
}
