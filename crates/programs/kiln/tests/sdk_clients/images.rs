//! Rules for galleries, image definitions and image versions.

use crate::azure::Azure;

#[test]
fn names_of_galleries_definitions_and_versions_are_validated() {
    Azure::default().plays("images", "names_have_a_grammar");
}

#[test]
fn latest_is_the_highest_usable_version_in_the_region() {
    Azure::default().plays("images", "latest_is_resolved_when_an_instance_is_made");
}

#[test]
fn changes_of_immutable_image_properties_are_rejected() {
    Azure::default().plays("images", "immutable_properties");
}

#[test]
fn failed_version_remains_and_blocks_its_name() {
    Azure::default().world("location: westcentralus\n").plays("images", "a_failed_version_stays");
}

#[test]
fn replication_progresses_over_time() {
    Azure::default().world("profile: {imageVersion: 1800}\n").speed("600").plays("images", "replication_takes_time");
}

#[test]
fn gallery_and_definition_with_children_are_not_deleted() {
    Azure::default().plays("images", "nested_resources_go_first");
}

#[test]
fn image_source_must_match_the_definition() {
    Azure::default().plays("images", "image_source_must_match_the_definition");
}

#[test]
fn community_images_are_listed_and_used() {
    let world = "
communityImages:
- gallery: open-gallery
  definition: node
  versions:
  - {version: 1.9.0, published: 2026-01-01T00:00:00Z}
  - {version: 1.10.0, published: 2026-02-01T00:00:00Z}
  - {version: 2.0.0, published: 2026-03-01T00:00:00Z, excludeFromLatest: true}
";
    Azure::default().world(world).plays("images", "community_images");
}
