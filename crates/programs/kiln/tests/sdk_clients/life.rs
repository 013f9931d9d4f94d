//! The whole life of a pool and its image.

use crate::azure::Azure;

#[test]
fn the_sdk_drives_the_whole_life_of_a_pool_and_its_image() {
    Azure::default().plays("life", "whole_life");
}
