//! Rules of galleries, definitions and versions.

use crate::azure::Azure;

#[test]
fn names_of_galleries_definitions_and_versions_have_a_grammar() {
    Azure::default().plays("images", "names_have_a_grammar");
}

#[test]
fn latest_is_the_highest_usable_version_in_the_region() {
    Azure::default().plays("images", "latest_is_resolved_when_an_instance_is_made");
}

#[test]
fn immutable_properties_of_definitions_and_versions_are_refused() {
    Azure::default().plays("images", "what_is_published_does_not_change");
}

#[test]
fn a_failed_version_stays_and_blocks_its_name() {
    Azure::default().world("location: westcentralus\n").plays("images", "a_failed_version_stays");
}

#[test]
fn replication_progresses_over_time() {
    Azure::default().world("profile: {imageVersion: 1800}\n").speed("600").plays("images", "replication_takes_time");
}

#[test]
fn a_gallery_or_definition_that_holds_something_is_not_deleted() {
    Azure::default().plays("images", "nested_resources_go_first");
}

#[test]
fn an_image_fits_its_definition() {
    Azure::default().plays("images", "an_image_fits_its_definition");
}

#[test]
fn images_that_others_publish_are_listed_and_started_from() {
    let world = "
communityImages:
- gallery: open-gallery
  definition: node
  versions:
  - {version: 1.9.0, published: 2026-01-01T00:00:00Z}
  - {version: 1.10.0, published: 2026-02-01T00:00:00Z}
  - {version: 2.0.0, published: 2026-03-01T00:00:00Z, excludeFromLatest: true}
";
    Azure::default().world(world).plays("images", "others_publish_images");
}
