//! Rules of disks, snapshots, single machines and their interfaces.

use crate::azure::Azure;

#[test]
fn a_running_machine_is_copied_by_full_and_incremental_snapshots() {
    Azure::default().plays("disks", "snapshots_of_a_running_machine");
}

#[test]
fn a_disk_in_use_is_not_deleted_and_no_disk_shrinks() {
    Azure::default().plays("disks", "disks_have_owners");
}

#[test]
fn a_machine_stands_alone_on_its_interface() {
    Azure::default().plays("disks", "machines_stand_alone");
}
