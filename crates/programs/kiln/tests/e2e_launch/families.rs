//! Image selection by family.

use crate::world::{GROUP, IMAGES, World};

/// A custom gallery, as the prototype operation creates it. Versions are created from a snapshot of a disk.
const GALLERIES: &str = "
resources:
- path: Microsoft.Compute/disks/golden
  body: {location: westus2, properties: {creationData: {createOption: Empty}, diskSizeGB: 30, osType: Linux, hyperVGeneration: V2}}
- path: Microsoft.Compute/snapshots/golden
  body: {location: westus2, properties: {creationData: {createOption: Copy, sourceResourceId: GROUP/Microsoft.Compute/disks/golden}}}
- path: Microsoft.Compute/galleries/own
  body: {location: westus2}
- path: Microsoft.Compute/galleries/own/images/node
  body: {location: westus2, properties: {osType: Linux, osState: Specialized, hyperVGeneration: V2, identifier: {publisher: p, offer: o, sku: s}}}
- path: Microsoft.Compute/galleries/own/images/node/versions/1.9.0
  body: VERSION
- path: Microsoft.Compute/galleries/own/images/node/versions/1.10.0
  body: VERSION
- path: Microsoft.Compute/galleries/own/images/node/versions/2.0.0
  body: EXCLUDED
pools: []
";

fn galleries() -> String {
    let version = |excluded: bool| {
        format!(
            "{{location: westus2, properties: {{publishingProfile: {{targetRegions: [{{name: westus2}}], excludeFromLatest: {excluded}}}, \
             storageProfile: {{osDiskImage: {{source: {{id: {GROUP}/Microsoft.Compute/snapshots/golden}}}}}}}}}}"
        )
    };
    let text = GALLERIES.replace("VERSION", &version(false)).replace("EXCLUDED", &version(true));
    format!("{IMAGES}{}", text.replace("GROUP", GROUP))
}

#[track_caller]
fn image(world: &World, more: &[&str]) -> String {
    let template = world.run(&["template"], &world.inputs(more)).success().json();
    template["imageId"].as_str().unwrap().to_owned()
}

#[test]
fn newest_image_of_each_family_is_selected() {
    let world = World::new(&galleries());
    let own = format!("imageId={GROUP}/Microsoft.Compute/galleries/own/images/node");
    let exact = format!("imageId={GROUP}/Microsoft.Compute/galleries/own/images/node/versions/1.9.0");
    let newer = "kubernetesVersion=1.34.1";
    for (more, end) in [
        (&["--set", "imageFamily=Ubuntu2204"][..], "/images/2204gen2containerd/versions/202611.2.0"),
        (&["--set", "imageFamily=Ubuntu2404"], "/images/2404gen2containerd/versions/202611.3.0"),
        (&["--set", newer], "/images/2404gen2containerd/versions/202611.3.0"),
        (&["--set", newer, "--set", "arch=arm64"], "/images/2404gen2arm64containerd/versions/202611.4.0"),
        (&["--set", "imageFamily=AzureLinux"], "/images/V3gen2/versions/202611.5.0"),
        (&["--set", "imageFamily=Gallery", "--set", &own], "/galleries/own/images/node/versions/1.10.0"),
        (&["--set", "imageFamily=Prototype", "--set", &own], "/galleries/own/images/node/versions/1.10.0"),
        (&["--set", "imageFamily=Gallery", "--set", &exact], "/galleries/own/images/node/versions/1.9.0"),
        (
            &["--set", "useSharedGallery=true", "--set", "gallerySubscriptionId=s"],
            "/subscriptions/s/resourceGroups/AKS-Ubuntu/providers/Microsoft.Compute/galleries/AKSUbuntu/images/2204gen2containerd/versions/202612.1.0",
        ),
    ] {
        let chosen = image(&world, more);
        assert!(chosen.ends_with(end), "{more:?}: {chosen}");
    }
    let none = world.run(&["template", "--set", "arch=arm64"], &world.inputs(&[]));
    assert_eq!(none.code, Some(1), "{none}");
    assert!(none.stderr.contains("no version of 2204gen2arm64containerd is available for arm64 machines"), "{none}");
    let unnamed = world.run(&["template", "--set", "imageFamily=Prototype"], &world.inputs(&[]));
    assert!(unnamed.code == Some(1) && unnamed.stderr.contains("`imageId`"), "{unnamed}");
    // A machine can be created from a custom gallery.
    world.run_ok(&["create", "node-1", "--set", "imageFamily=Prototype", "--set", &own], &world.inputs(&[]));
    let vm = world.body("Microsoft.Compute/virtualMachines/node-1");
    let id = vm["properties"]["storageProfile"]["imageReference"]["id"].as_str().unwrap();
    assert!(id.ends_with("/versions/1.10.0"), "{id}");
}

#[test]
fn cached_version_list_expires_and_is_per_kubernetes_version() {
    let world = World::new(&galleries());
    let cache = world.path("images.json");
    let at = |time: &str, more: &[&str]| {
        let inputs = world.inputs(&[&["--image-cache", &cache, "--now", time], more].concat());
        world.run(&["template"], &inputs).success().json()["imageSource"].as_str().unwrap().to_owned()
    };
    assert!(at("2026-11-10T00:00:00Z", &[]).starts_with("GET /subscriptions/"));
    assert_eq!(at("2026-11-12T23:59:59Z", &[]), "a cached list");
    assert!(at("2026-11-12T23:59:59Z", &["--set", "kubernetesVersion=1.33.8"]).starts_with("GET "));
    assert!(at("2026-11-13T00:00:01Z", &[]).starts_with("GET "));
}
