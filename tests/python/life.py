"""The life cycle of a pool and its image, with the SDK."""

import base64

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure_under_test import POOL, equal, refused

GALLERY, DEFINITION = "SIG_kubernetes", "kamino-pool-prototype"


def whole_life(azure):
    """From the first list of the pool to an empty resource group."""
    compute, group = azure.compute, azure.group

    # The initial pool.
    equal([one.name for one in compute.virtual_machine_scale_sets.list(group)], [POOL], "scale sets of the group")
    equal([one.name for one in compute.virtual_machine_scale_sets.list_all()], [POOL], "scale sets of the subscription")
    pool = azure.pool()
    equal(pool["sku"]["capacity"], 10, "capacity")
    equal(pool["properties"]["upgradePolicy"]["mode"], "Manual", "upgrade policy")
    summary = compute.virtual_machine_scale_sets.get_instance_view(group, POOL).as_dict()["virtualMachine"]["statusesSummary"]
    equal({one["code"]: one["count"] for one in summary}["PowerState/running"], 10, "running machines")
    instances = azure.instances()
    equal([one["instanceId"] for one in instances], [str(number) for number in range(10)], "instance ids")
    equal(instances[0]["properties"]["osProfile"]["computerName"], f"{POOL}000000", "computer name")
    equal(azure.power(0), "PowerState/running", "power of the donor")

    # The donor is protected, stopped, snapshotted and started again.
    protected = compute.virtual_machine_scale_set_vms.begin_update(group, POOL, "0", {
        "location": azure.location,
        "properties": {"protectionPolicy": {"protectFromScaleIn": True, "protectFromScaleSetActions": True}}}).result()
    assert protected.as_dict()["properties"]["protectionPolicy"]["protectFromScaleIn"]
    compute.virtual_machine_scale_sets.begin_power_off(group, POOL, {"instanceIds": ["0"]}).result()
    equal(azure.power(0), "PowerState/stopped", "power after powerOff")
    snapshot = azure.snapshot("snapshot_pool")
    equal(snapshot["properties"]["provisioningState"], "Succeeded", "the snapshot's state")
    compute.virtual_machine_scale_sets.begin_start(group, POOL, {"instanceIds": ["0"]}).result()
    equal(azure.power(0), "PowerState/running", "power after start")
    compute.virtual_machine_scale_set_vms.begin_update(group, POOL, "0", {
        "location": azure.location,
        "properties": {"protectionPolicy": {"protectFromScaleIn": False, "protectFromScaleSetActions": False}}}).result()

    # An image version, first excluded from latest, then included.
    azure.gallery(GALLERY)
    definition = azure.definition(GALLERY, DEFINITION)
    version = azure.version(GALLERY, DEFINITION, "2026.11.14", snapshot["id"], excluded=True)
    equal(version["properties"]["provisioningState"], "Succeeded", "the version's state")
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(definition["id"])
    included = compute.gallery_image_versions.begin_update(
        group, GALLERY, DEFINITION, "2026.11.14", {"properties": {"publishingProfile": {"excludeFromLatest": False}}}).result()
    equal(included.as_dict()["properties"]["publishingProfile"]["excludeFromLatest"], False, "excludeFromLatest")

    # A conditional change of the model.
    pool = azure.pool()
    image = {"properties": {"virtualMachineProfile": {
        "storageProfile": {"imageReference": {"id": definition["id"]}},
        "osProfile": {"customData": base64.b64encode(b"#cloud-config\n").decode()}}}}
    changed = azure.patch_pool(image, etag=pool["etag"], match_condition=MatchConditions.IfNotModified)
    equal(changed["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"], {"id": definition["id"]}, "image")
    with refused("PreconditionFailed", ResourceModifiedError, 412):
        azure.patch_pool(image, etag=pool["etag"], match_condition=MatchConditions.IfNotModified)
    assert all(not one["properties"]["latestModelApplied"] for one in azure.instances()), "policy Manual changes no instance"

    # New instances use the new image, existing ones are unchanged.
    image_of_new = azure.new_instance_image()
    equal(image_of_new, version["id"], "image of the new instance")
    newest = azure.instance(10)["properties"]
    equal((newest["latestModelApplied"], newest["provisioningState"]), (True, "Succeeded"), "the new instance")
    equal(newest["osProfile"]["computerName"], f"{POOL}00000A", "computer name of the new instance")
    assert "id" not in azure.instance(1)["properties"]["storageProfile"]["imageReference"], "old instances keep their image"

    # Power of one instance and of several.
    vms = compute.virtual_machine_scale_set_vms
    vms.begin_power_off(group, POOL, "1", skip_shutdown=True).result()
    equal(azure.power(1), "PowerState/stopped", "after powerOff of one")
    vms.begin_start(group, POOL, "1").result()
    vms.begin_deallocate(group, POOL, "1").result()
    equal(azure.power(1), "PowerState/deallocated", "after deallocate of one")
    compute.virtual_machine_scale_sets.begin_start(group, POOL, {"instanceIds": ["1"]}).result()
    vms.begin_restart(group, POOL, "1").result()
    compute.virtual_machine_scale_sets.begin_restart(group, POOL, {"instanceIds": ["1", "2"]}).result()
    equal([azure.power(1), azure.power(2)], ["PowerState/running"] * 2, "after restart")
    compute.virtual_machine_scale_sets.begin_deallocate(group, POOL, {"instanceIds": ["1", "2"]}).result()
    equal([azure.power(1), azure.power(2)], ["PowerState/deallocated"] * 2, "after deallocate of two")
    compute.virtual_machine_scale_sets.begin_start(group, POOL, {"instanceIds": ["1", "2"]}).result()

    # A reimage keeps the image of the instance, an upgrade applies the model's.
    before = compute.disks.get(group, azure.os_disk(2).rsplit("/", 1)[1]).as_dict()["properties"]["uniqueId"]
    vms.begin_reimage(group, POOL, "2").result()
    after = compute.disks.get(group, azure.os_disk(2).rsplit("/", 1)[1]).as_dict()["properties"]["uniqueId"]
    assert before != after, "a reimage makes the OS disk anew"
    assert "id" not in azure.instance(2)["properties"]["storageProfile"]["imageReference"], "a reimage is not an upgrade"
    compute.virtual_machine_scale_sets.begin_update_instances(group, POOL, {"instanceIds": ["2"]}).result()
    upgraded = azure.instance(2)["properties"]
    equal((upgraded["latestModelApplied"], upgraded["storageProfile"]["imageReference"]["id"]), (True, version["id"]), "upgraded")
    equal(azure.power(2), "PowerState/running", "an upgraded machine runs")

    # Extensions: one is added, changed and removed; the script is removed and billing stays.
    extensions = compute.virtual_machine_scale_set_extensions
    equal([one.name for one in extensions.list(group, POOL)], ["vmssCSE", "computeAksLinuxBilling"], "extensions")
    made = extensions.begin_create_or_update(group, POOL, "health", {"properties": {
        "publisher": "Microsoft.ManagedServices", "type": "ApplicationHealthLinux", "typeHandlerVersion": "1.0",
        "settings": {"port": 10248}}}).result().as_dict()
    equal(made["properties"]["settings"], {"port": 10248}, "settings of the new extension")
    extensions.begin_update(group, POOL, "health", {"properties": {"settings": {"port": 10256}}}).result()
    equal(extensions.get(group, POOL, "health").as_dict()["properties"]["settings"], {"port": 10256}, "changed settings")
    for name in ("health", "vmssCSE"):
        extensions.begin_delete(group, POOL, name).result()
    equal([one.name for one in extensions.list(group, POOL)], ["computeAksLinuxBilling"], "extensions that stay")
    with refused("ResourceNotFound", ResourceNotFoundError):
        extensions.get(group, POOL, "vmssCSE")

    # A second version; the first one is deleted.
    azure.snapshot("snapshot_second")
    second = azure.version(GALLERY, DEFINITION, "2026.11.15", azure.id("Microsoft.Compute/snapshots/snapshot_second"))
    names = [one.name for one in compute.gallery_image_versions.list_by_gallery_image(group, GALLERY, DEFINITION)]
    equal(names, ["2026.11.14", "2026.11.15"], "versions")
    equal(azure.new_instance_image(), second["id"], "latest")
    compute.gallery_image_versions.begin_delete(group, GALLERY, DEFINITION, "2026.11.14").result()
    names = [one.name for one in compute.gallery_image_versions.list_by_gallery_image(group, GALLERY, DEFINITION)]
    equal(names, ["2026.11.15"], "versions after pruning")

    # Instances are deleted by id and by capacity.
    compute.virtual_machine_scale_sets.begin_delete_instances(group, POOL, {"instanceIds": ["3", "4"]}).result()
    vms.begin_delete(group, POOL, "5").result()
    equal([one["instanceId"] for one in azure.instances()], ["0", "1", "2", "6", "7", "8", "9", "10", "11"], "instances left")
    equal(azure.pool()["sku"]["capacity"], 9, "capacity follows")
    azure.scale(2)
    equal(len(azure.instances()), 2, "instances after scale-in")

    # A second pool for a canary.
    canary = azure.pool()
    body = {"location": azure.location, "sku": {"name": canary["sku"]["name"], "capacity": 1}, "tags": {"run": "7"},
            "properties": {"upgradePolicy": {"mode": "Manual"}, "virtualMachineProfile": {
                "osProfile": {"computerNamePrefix": "canary", "adminUsername": "azureuser"},
                "storageProfile": {"imageReference": {"id": second["id"]}},
                "networkProfile": canary["properties"]["virtualMachineProfile"]["networkProfile"]}}}
    sets = compute.virtual_machine_scale_sets
    made = sets.begin_create_or_update(group, "canary", body, match_condition=MatchConditions.IfMissing).result().as_dict()
    equal((made["tags"], made["sku"]["capacity"]), ({"run": "7"}, 1), "the canary's scale set")
    equal(azure.instance(0, "canary")["properties"]["osProfile"]["computerName"], "canary000000", "the canary's node")
    sets.begin_delete(group, "canary").result()

    # Standalone disks.
    disks = compute.disks
    disks.begin_create_or_update(group, "data", {"location": azure.location, "properties": {
        "creationData": {"createOption": "Empty"}, "diskSizeGB": 8}}).result()
    larger = disks.begin_update(group, "data", {"properties": {"diskSizeGB": 16}}).result().as_dict()
    equal(larger["properties"]["diskSizeGB"], 16, "size of the disk")
    assert "data" in [one.name for one in disks.list_by_resource_group(group)]
    disks.begin_delete(group, "data").result()

    # Everything is deleted.
    for name in ("snapshot_pool", "snapshot_second"):
        compute.snapshots.begin_delete(group, name).result()
    compute.gallery_image_versions.begin_delete(group, GALLERY, DEFINITION, "2026.11.15").result()
    compute.gallery_images.begin_delete(group, GALLERY, DEFINITION).result()
    compute.galleries.begin_delete(group, GALLERY).result()
    sets.begin_delete(group, POOL).result()
    with refused("ResourceNotFound", ResourceNotFoundError):
        azure.pool()
    for left in (sets.list(group), compute.snapshots.list(), compute.galleries.list(), disks.list(), disks.list_by_resource_group(group)):
        equal([one.name for one in left], [], "what is left")
