//! The life cycle of a pool and its image.

use crate::azure::Azure;

#[test]
fn sdk_drives_the_life_cycle_of_pool_and_image() {
    Azure::default().plays("life", "whole_life");
}
