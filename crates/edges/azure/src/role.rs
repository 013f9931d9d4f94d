//! The smallest role that the operation works with: each action, and what it is for.

use kiln_types::{Need, NeededFor};

pub(crate) const JOIN_SUBNET: &str = "Microsoft.Network/virtualNetworks/subnets/join/action";
pub(crate) const JOIN_SECURITY_GROUP: &str = "Microsoft.Network/networkSecurityGroups/join/action";
pub(crate) const JOIN_BACKEND_POOL: &str = "Microsoft.Network/loadBalancers/backendAddressPools/join/action";
pub(crate) const ASSIGN_IDENTITY: &str = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action";

const fn always(action: &'static str, needed_to: &'static str) -> Need {
    Need { action, needed_to, needed_for: NeededFor::EveryRun }
}

const fn linked(action: &'static str, needed_to: &'static str) -> Need {
    Need { action, needed_to, needed_for: NeededFor::Linked }
}

const fn only(what: &'static str, action: &'static str, needed_to: &'static str) -> Need {
    Need { action, needed_to, needed_for: NeededFor::Only(what) }
}

/// Every action, by resource. A role with these `actions` and no others is enough.
pub const ACTIONS: [Need; 30] = [
    always("Microsoft.Compute/galleries/read", "find the gallery"),
    always("Microsoft.Compute/galleries/write", "make the gallery"),
    always("Microsoft.Compute/galleries/images/read", "find the pool's image definition"),
    always("Microsoft.Compute/galleries/images/write", "make and tag the pool's image definition"),
    always("Microsoft.Compute/galleries/images/versions/read", "see the image versions"),
    always("Microsoft.Compute/galleries/images/versions/write", "publish, exclude and include a version"),
    always("Microsoft.Compute/galleries/images/versions/delete", "remove old and failed versions"),
    always("Microsoft.Compute/snapshots/read", "find the copy of the donor's disk"),
    always("Microsoft.Compute/snapshots/write", "copy the donor's disk"),
    always("Microsoft.Compute/snapshots/delete", "remove the copy of the donor's disk"),
    always("Microsoft.Compute/disks/read", "read the donor's disk"),
    always("Microsoft.Compute/disks/beginGetAccess/action", "copy the donor's disk"),
    always("Microsoft.Compute/virtualMachineScaleSets/read", "read the pool"),
    always("Microsoft.Compute/virtualMachineScaleSets/write", "change the pool's model, make the canary"),
    always("Microsoft.Compute/virtualMachineScaleSets/delete", "remove the canary"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read", "read the donor and its neighbours"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write", "protect the donor"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action", "turn the donor off"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/start/action", "turn the donor on"),
    always("Microsoft.Compute/virtualMachineScaleSets/extensions/delete", "take the script extension out of the model"),
    always("Microsoft.Compute/locations/operations/read", "see how far an operation is"),
    only("refresh", "Microsoft.Compute/virtualMachineScaleSets/delete/action", "remove nodes that run an old version"),
    only(
        "--deallocate",
        "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/deallocate/action",
        "give the donor's hardware back while it is off",
    ),
    only(
        "rollback --to original",
        "Microsoft.Compute/virtualMachineScaleSets/extensions/read",
        "see whether the script extension is in the model",
    ),
    only(
        "rollback --to original",
        "Microsoft.Compute/virtualMachineScaleSets/extensions/write",
        "put the script extension back into the model",
    ),
    only(
        "--disk-encryption-set",
        "Microsoft.Compute/diskEncryptionSets/read",
        "encrypt the copies of a version with keys of your own",
    ),
    linked(JOIN_SUBNET, "change a model whose machines are in the subnet, and make the canary there"),
    linked(JOIN_SECURITY_GROUP, "change a model whose machines are in the security group"),
    linked(JOIN_BACKEND_POOL, "change a model whose machines are behind the load balancer"),
    linked(ASSIGN_IDENTITY, "change a model whose machines have the identity"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_action_is_asked_for_twice_and_none_holds_a_pattern() {
        let distinct: BTreeSet<_> = ACTIONS.iter().map(|need| need.action.to_ascii_lowercase()).collect();
        assert_eq!(distinct.len(), ACTIONS.len());
        assert!(ACTIONS.iter().all(|need| !need.action.contains('*')));
    }
}
