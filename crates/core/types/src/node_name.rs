//! Node names of scale set instances: the pool's name and six characters with the instance's number in base 36.

use crate::name::{BadName, InstanceId, PoolName};

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const SUFFIX: usize = 6;
const NODE: &str = "node name of a scale set instance";
const ID: &str = "instance id for a node name";

/// The pool and the instance that a node name encodes.
pub fn instance_from_node_name(node: &str) -> Result<(PoolName, InstanceId), BadName> {
    let bad = || BadName {
        noun: NODE,
        input: node.to_owned(),
        rule: "a pool name followed by six characters of `0-9` and `a-z`",
    };
    let (pool, suffix) = node.len().checked_sub(SUFFIX).and_then(|at| node.split_at_checked(at)).ok_or_else(bad)?;
    let mut number: u64 = 0;
    for byte in suffix.bytes() {
        // Node names are lower case. Accepting upper case would give an instance two names.
        let digit = DIGITS.iter().position(|d| *d == byte).ok_or_else(bad)?;
        number = number * 36 + digit as u64;
    }
    let id = number.to_string().parse().map_err(|_| bad())?;
    Ok((pool.parse()?, id))
}

/// The node name of an instance.
pub fn node_name_of(pool: &PoolName, instance: &InstanceId) -> Result<String, BadName> {
    let bad = |rule| BadName { noun: ID, input: instance.to_string(), rule };
    let mut number: u64 =
        instance.as_str().parse().map_err(|_| bad("a number; instances of a Flexible scale set have none"))?;
    let mut suffix = [b'0'; SUFFIX];
    for digit in suffix.iter_mut().rev() {
        *digit = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    if number > 0 {
        return Err(bad("a number of at most six digits in base 36"));
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
    fn suffix_is_the_instance_number_in_base_36() {
        let id = |text: &str| instance_from_node_name(text).unwrap().1.to_string();
        assert_eq!(id("k8s-pool-1-vmss000000"), "0");
        assert_eq!(id("k8s-pool-1-vmss00000z"), "35");
        assert_eq!(id("k8s-pool-1-vmss000010"), "36");
        assert_eq!(instance_from_node_name("k8s-pool-1-vmss00000a").unwrap().0, pool());
    }

    #[test]
    fn error_shows_a_name_that_is_not_a_pool_and_a_suffix() {
        for bad in ["", "00000", "pool-00000A", "pool-00é000"] {
            let error = instance_from_node_name(bad).unwrap_err();
            assert_eq!((error.noun, error.input.as_str()), (NODE, bad));
        }
        assert_eq!(instance_from_node_name("000000").unwrap_err().noun, "pool name");
    }

    #[test]
    fn instance_without_a_number_or_with_a_large_one_has_no_node_name() {
        let rule = |id: &str| node_name_of(&pool(), &id.parse().unwrap()).unwrap_err().rule;
        assert!(rule("vm_1a2b").contains("Flexible"));
        assert!(rule("2176782336").contains("six digits"));
    }

    proptest! {
        #[test]
        fn instance_round_trips_through_its_node_name(number in 0u64..36u64.pow(6)) {
            let id: InstanceId = number.to_string().parse().unwrap();
            let node = node_name_of(&pool(), &id).unwrap();
            prop_assert_eq!(node.len(), pool().as_str().len() + 6);
            prop_assert_eq!(instance_from_node_name(&node).unwrap(), (pool(), id));
        }
    }
}
