//! Disk controllers: which sizes can boot which images, and what a disk inherits of its image.

use serde_json::{Value, json};

use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::world::World;
use crate::world::resource::Resource;

/// Rejects a size without a disk controller that the image supports. Marketplace images support all.
pub(super) fn check(world: &World, size: &str, reference: Option<&Value>) -> Result<(), ArmError> {
    let id = reference.and_then(|reference| reference.get("id")).and_then(Value::as_str);
    let Some(definition) = id.and_then(|id| definition(world, id)) else { return Ok(()) };
    let controllers = feature(definition, "DiskControllerTypes").unwrap_or("SCSI");
    if !is_nvme_only(size) || controllers.to_ascii_lowercase().contains("nvme") {
        return Ok(());
    }
    let message = format!(
        "The VM size '{size}' cannot boot with OS image or disk. Please check that disk controller types supported by the OS image or disk is one of the supported disk controller types for the VM size '{size}'. Please query sku api at https://aka.ms/azure-compute-skus  to determine supported disk controller types for the VM size."
    );
    Err(ArmError::parameter("vmSize", message))
}

/// The capabilities of an OS disk: those of its image definition, or those of a marketplace image that its size can boot.
pub(super) fn capabilities(world: &World, image: &str, size: &str) -> Value {
    let Some(definition) = definition(world, image) else {
        return if is_nvme_only(size) {
            json!({"diskControllerTypes": "SCSI, NVMe", "acceleratedNetwork": true, "architecture": "x64"})
        } else {
            json!({"architecture": "x64"})
        };
    };
    let mut capabilities = json!({"architecture": definition.text("properties.architecture").unwrap_or("x64")});
    if let Some(controllers) = feature(definition, "DiskControllerTypes") {
        capabilities["diskControllerTypes"] = json!(controllers);
    }
    if let Some(supported) = feature(definition, "IsAcceleratedNetworkSupported") {
        capabilities["acceleratedNetwork"] = json!(supported.eq_ignore_ascii_case("true"));
    }
    capabilities
}

/// Sizes of version 6 and later have no SCSI controller.
fn is_nvme_only(size: &str) -> bool {
    size.rsplit_once("_v").and_then(|(_, version)| version.parse::<u32>().ok()).is_some_and(|version| version >= 6)
}

/// The definition of an image version or of an image definition.
fn definition<'a>(world: &'a World, image: &str) -> Option<&'a Resource> {
    let id = ResourceId::parse(image)?;
    let id = if id.kind == ResourceKind::Version { id.parent()? } else { id };
    world.resources.get(&id.key()).filter(|resource| resource.id.kind == ResourceKind::Definition)
}

fn feature<'a>(definition: &'a Resource, name: &str) -> Option<&'a str> {
    let features = definition.at("properties.features")?.as_array()?;
    features.iter().find(|feature| feature["name"] == json!(name))?.get("value")?.as_str()
}
