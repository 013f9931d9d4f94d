//! Compute's own request limits: the families that a request counts in, as `x-ms-ratelimit-remaining-resource` reports them.

use http::Method;

use super::call::Call;
use super::id::Target;
use super::kind::ResourceKind;

/// A family and the number of requests that it allows. The numbers are the highest that Azure was seen to report, plus one.
pub(super) type Family = (&'static str, u64);

const GET_SET: &[Family] = &[("GetVMScaleSetSubscriptionMaximum", 2_400), ("GetVMScaleSetResource", 36)];
const VIEW_SET: &[Family] =
    &[("HighCostGetVMScaleSetSubscriptionMaximum", 1_080), ("HighCostGetVMScaleSetResource", 30)];
const LIST_INSTANCES: &[Family] = &[VIEW_SET[0], VIEW_SET[1], ("VMScaleSetVMViewsSubscriptionMaximum", 30_000)];
const GET_INSTANCE: &[Family] =
    &[("GetVMScaleSetVMSubscriptionMaximum", 6_000), ("GetVMScaleSetVMResource", 36), LIST_INSTANCES[2]];
/// The VM requests that a write of a scale set causes. Azure reports no queued ones.
const BATCHED: Family = ("VMScaleSetBatchedVMRequestsSubscriptionMaximum", 6_001);
const QUEUED: Family = ("VmssQueuedVMOperations", 0);
const PUT_SET: &[Family] =
    &[("CreateVMScaleSetSubscriptionMaximum", 375), ("CreateVMScaleSetResource", 12), BATCHED, QUEUED];
const DELETE_SET: &[Family] =
    &[("DeleteVMScaleSetSubscriptionMaximum", 525), ("DeleteVMScaleSetResource", 12), BATCHED, QUEUED];
const STOP_SET: &[Family] = &[DELETE_SET[0], BATCHED, QUEUED];
const PATCH_SET: &[Family] =
    &[("VMScaleSetActionsSubscriptionMaximum", 1_500), ("VMScaleSetActionsResource", 12), BATCHED, QUEUED];
const ACT_ON_SET: &[Family] = &[PATCH_SET[0], BATCHED, QUEUED];
const WRITE_INSTANCE: &[Family] =
    &[("VMScaleSetVMActionsSubscriptionMaximum", 2_000), ("VMScaleSetVMActionsResource", 12), BATCHED, QUEUED];
const DELETE_INSTANCE: &[Family] =
    &[("DeleteVMScaleSetVMSubscriptionMaximum", 2_000), ("DeleteVMScaleSetVMResource", 12), BATCHED, QUEUED];

/// The families of a request to Compute. Empty for other providers and for requests whose families were not recorded. A write of a flexible
/// scale set counts no VM requests.
pub(super) fn of(call: &Call, target: &Target, is_flexible: bool) -> &'static [Family] {
    use ResourceKind as Kind;
    let (reads, deletes, put) = (call.method == Method::GET, call.method == Method::DELETE, call.method == Method::PUT);
    match target {
        Target::Operation { list, .. } => match list.to_ascii_lowercase().as_str() {
            "diskoperations" => &[("GetOperation3Min", 50_000), ("GetOperation30Min", 400_000)],
            "capsoperations" => &[("GetOperationStatus3Min", 5_000), ("GetOperationStatus30Min", 15_000)],
            _ => &[("GetOperationResource", 60), ("GetOperationSubscriptionMaximum", 15_000)],
        },
        Target::SharedGallery { path, .. } => match path.len() {
            0 => &[("ListGallery3Min", 150), ("ListGallery30Min", 1_000)],
            1 => &[("GetGallery3Min", 350), ("GetGallery30Min", 2_500)],
            2 => &[("ListGalleryArtifact3Min", 200), ("ListGalleryArtifact30Min", 200)],
            3 => &[("GetGalleryArtifact3Min", 600), ("GetGalleryArtifact30Min", 3_000)],
            4 => &[("ListGalleryArtifactVersion3Min", 800), ("ListGalleryArtifactVersion30Min", 4_000)],
            _ => &[("GetGalleryArtifactVersion3Min", 2_000), ("GetGalleryArtifactVersion30Min", 10_000)],
        },
        Target::Collection { kind, group, .. } => match kind {
            // ARM itself lists the scale sets of a whole subscription.
            Kind::ScaleSet if group.is_none() => &[],
            Kind::ScaleSet => &VIEW_SET[..1],
            Kind::Instance => LIST_INSTANCES,
            Kind::Snapshot | Kind::Disk => &[("HighCostGet3Min", 240), ("HighCostGet30Min", 1_920)],
            Kind::Gallery => &[("ListGalleryInResourceGroup3Min", 100), ("ListGalleryInResourceGroup30Min", 1_000)],
            Kind::Definition => {
                &[("ListGalleryImagesInGallery3Min", 1_500), ("ListGalleryImagesInGallery30Min", 10_000)]
            }
            Kind::Version => &[
                ("ListGalleryImageVersionsInGalleryImage3Min", 1_500),
                ("ListGalleryImageVersionsInGalleryImage30Min", 10_000),
            ],
            Kind::Image => &[("GetImagesSubscriptionMaximum", 360)],
            _ => &[],
        },
        Target::Resource(id) => match id.kind {
            Kind::ScaleSet if reads => GET_SET,
            Kind::ScaleSet if deletes => DELETE_SET,
            Kind::ScaleSet if put && is_flexible => &PUT_SET[..2],
            Kind::ScaleSet if put => PUT_SET,
            Kind::ScaleSet => PATCH_SET,
            Kind::Instance if reads => GET_INSTANCE,
            Kind::Instance if deletes => DELETE_INSTANCE,
            Kind::Instance => WRITE_INSTANCE,
            Kind::Disk | Kind::Snapshot if reads => &[("LowCostGet3Min", 15_000), ("LowCostGet30Min", 120_000)],
            Kind::Disk | Kind::Snapshot if deletes => &[("DeleteDisks3Min", 3_000), ("DeleteDisks30Min", 24_000)],
            Kind::Disk => &[("CreateUpdateDisks3Min", 3_000), ("CreateUpdateDisks30Min", 25_000)],
            Kind::Snapshot => SNAPSHOT,
            Kind::Gallery if reads => &[("GetGallery3Min", 350), ("GetGallery30Min", 2_500)],
            Kind::Gallery if deletes => &[("DeleteGallery3Min", 50), ("DeleteGallery30Min", 300)],
            Kind::Gallery => &[("CreateUpdateGallery3Min", 50), ("CreateUpdateGallery30Min", 300)],
            Kind::Definition if reads => &[("GetGalleryImage3Min", 600), ("GetGalleryImage30Min", 3_000)],
            Kind::Definition if deletes => &[("DeleteGalleryImage3Min", 50), ("DeleteGalleryImage30Min", 300)],
            Kind::Definition => &[("CreateUpdateGalleryImage3Min", 150), ("CreateUpdateGalleryImage30Min", 750)],
            Kind::Version if reads => &[("GetGalleryImageVersion3Min", 2_000), ("GetGalleryImageVersion30Min", 10_000)],
            Kind::Version if deletes => {
                &[("DeleteGalleryImageVersion3Min", 150), ("DeleteGalleryImageVersion30Min", 1_000)]
            }
            Kind::Version => {
                &[("CreateUpdateGalleryImageVersion3Min", 375), ("CreateUpdateGalleryImageVersion30Min", 1_200)]
            }
            Kind::Image if reads => &[("GetImagesSubscriptionMaximum", 360)],
            Kind::Image => &[("CreateImagesSubscriptionMaximum", 60)],
            _ => &[],
        },
        Target::Action { id, action } => match (id.kind, action.as_str()) {
            (Kind::ScaleSet, "instanceview") => VIEW_SET,
            (Kind::ScaleSet, _) if reads => GET_SET,
            (Kind::ScaleSet, "deallocate") if call.query.get("hibernate").is_some() => &DELETE_SET[..1],
            (Kind::ScaleSet, "deallocate" | "poweroff") => STOP_SET,
            (Kind::ScaleSet, "extensionrollingupgrade" | "setorchestrationservicestate") => PATCH_SET,
            (Kind::ScaleSet, _) => ACT_ON_SET,
            (Kind::Instance, _) if reads => GET_INSTANCE,
            (Kind::Instance, "deallocate" | "poweroff") => DELETE_INSTANCE,
            (Kind::Instance, _) => WRITE_INSTANCE,
            (Kind::Snapshot | Kind::Disk, _) => SNAPSHOT,
            (Kind::Gallery, _) => &[("PostShareGallery3Min", 10), ("PostShareGallery30Min", 60)],
            _ => &[],
        },
        _ => &[],
    }
}

const SNAPSHOT: &[Family] =
    &[("HighCostSnapshotCreateHydrate3Min", 1_000), ("HighCostSnapshotCreateHydrate30Min", 8_000)];
