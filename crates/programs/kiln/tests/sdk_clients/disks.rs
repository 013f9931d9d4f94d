//! Rules for disks, snapshots, standalone VMs and their interfaces.

use crate::azure::Azure;

#[test]
fn running_vm_has_full_and_incremental_snapshots() {
    Azure::default().plays("disks", "snapshots_of_a_running_machine");
}

#[test]
fn attached_disk_is_not_deleted_and_disks_do_not_shrink() {
    Azure::default().plays("disks", "disks_have_owners");
}

#[test]
fn standalone_vm_uses_its_interface() {
    Azure::default().plays("disks", "standalone_machines");
}
