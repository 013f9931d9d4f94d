//! The smallest Azure role that kiln needs: each action and its purpose.

use kiln_types::{Need, NeededFor};

pub(crate) const JOIN_SUBNET: &str = "Microsoft.Network/virtualNetworks/subnets/join/action";
pub(crate) const JOIN_SECURITY_GROUP: &str = "Microsoft.Network/networkSecurityGroups/join/action";
pub(crate) const JOIN_BACKEND_POOL: &str = "Microsoft.Network/loadBalancers/backendAddressPools/join/action";
pub(crate) const READ_LOAD_BALANCER: &str = "Microsoft.Network/loadBalancers/read";
pub(crate) const JOIN_APPLICATION_GROUP: &str =
    "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action";
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

/// All actions, by resource. A custom role with exactly these `actions` is sufficient.
pub const ACTIONS: [Need; 36] = [
    always("Microsoft.Compute/galleries/read", "find the gallery"),
    always("Microsoft.Compute/galleries/write", "create the gallery"),
    always("Microsoft.Compute/galleries/images/read", "find the pool's image definition"),
    always("Microsoft.Compute/galleries/images/write", "create and tag the pool's image definition"),
    always("Microsoft.Compute/galleries/images/versions/read", "list the image versions"),
    always("Microsoft.Compute/galleries/images/versions/write", "publish, exclude and include a version"),
    always("Microsoft.Compute/galleries/images/versions/delete", "delete old and failed versions"),
    always("Microsoft.Compute/snapshots/read", "find the snapshot of the donor's disk"),
    always("Microsoft.Compute/snapshots/write", "create the snapshot of the donor's disk"),
    always("Microsoft.Compute/snapshots/delete", "delete the snapshot of the donor's disk"),
    always("Microsoft.Compute/disks/read", "read the donor's disk"),
    always("Microsoft.Compute/disks/beginGetAccess/action", "create the snapshot of the donor's disk"),
    always("Microsoft.Compute/virtualMachineScaleSets/read", "read the pool"),
    always("Microsoft.Compute/virtualMachineScaleSets/write", "change the pool's model, create the canary"),
    always("Microsoft.Compute/virtualMachineScaleSets/delete", "delete the canary"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read", "read the donor and the other instances"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write", "protect the donor"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action", "stop the donor"),
    always("Microsoft.Compute/virtualMachineScaleSets/virtualMachines/start/action", "start the donor"),
    always("Microsoft.Compute/virtualMachineScaleSets/extensions/delete", "remove the script extension from the model"),
    always("Microsoft.Compute/locations/operations/read", "poll operations on the pool and the canary"),
    always("Microsoft.Compute/locations/diskOperations/read", "poll operations on the snapshot"),
    always("Microsoft.Compute/locations/capsOperations/read", "poll operations on gallery, definition and versions"),
    only(
        "the check for locks",
        "Microsoft.Authorization/locks/read",
        "find locks before the run, instead of failing at them",
    ),
    only("refresh", "Microsoft.Compute/virtualMachineScaleSets/delete/action", "delete nodes that run an old version"),
    only(
        "--deallocate",
        "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/deallocate/action",
        "deallocate the donor",
    ),
    only(
        "rollback --to original",
        "Microsoft.Compute/virtualMachineScaleSets/extensions/read",
        "check whether the model has the script extension",
    ),
    only(
        "rollback --to original",
        "Microsoft.Compute/virtualMachineScaleSets/extensions/write",
        "restore the script extension in the model",
    ),
    only(
        "customer-managed keys",
        "Microsoft.Compute/diskEncryptionSets/read",
        "encrypt image replicas with your own keys",
    ),
    only("`--target-regions`", "Microsoft.Resources/subscriptions/locations/read", "check the names of the regions"),
    linked(READ_LOAD_BALANCER, "find out which of its pools the canary needs for outbound access"),
    linked(JOIN_SUBNET, "change a model with machines in the subnet, and create the canary there"),
    linked(JOIN_SECURITY_GROUP, "change a model with machines in the security group"),
    linked(
        JOIN_APPLICATION_GROUP,
        "change a model with machines in the application security group, and create the canary there",
    ),
    linked(JOIN_BACKEND_POOL, "change a model with machines behind the load balancer"),
    linked(ASSIGN_IDENTITY, "change a model with machines that have the identity"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn actions_are_unique_and_contain_no_wildcards() {
        let distinct: BTreeSet<_> = ACTIONS.iter().map(|need| need.action.to_ascii_lowercase()).collect();
        assert_eq!(distinct.len(), ACTIONS.len());
        assert!(ACTIONS.iter().all(|need| !need.action.contains('*')));
    }
}
