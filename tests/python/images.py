"""Rules for galleries, image definitions and image versions."""

import time

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure_under_test import GROUPS, POOL, contains, equal, refused


def names_have_a_grammar(azure):
    """Gallery names have no dashes and are unique in the subscription; versions are three numbers."""
    for name in ("with-dash", "_start", "end.", "x" * 81):
        with refused("InvalidParameter", status=400) as caught:
            azure.gallery(name)
        contains(str(caught[0]), name)
    gallery, definition, snapshot = azure.image_setup("SIG_a.b_1")
    for name in ("has space", "-start", "end_"):
        with refused("InvalidParameter", status=400):
            azure.definition(gallery, name)
    azure.definition(gallery, "with-dash_and.dot")
    for name in ("1.0", "1.0.0.0", "1.0.x", "v1.0.0", "1.0.2147483648", "latest"):
        with refused("InvalidParameter", status=400):
            azure.version(gallery, definition, name, snapshot)
    for name in ("2026.01.05", "0.0.0", "1.2.2147483647"):
        equal(azure.version(gallery, definition, name, snapshot)["name"], name, "a version's name")
    azure.http("PUT", azure.scope(group="other"), GROUPS, {"location": azure.location})
    with refused("Conflict", ResourceExistsError, 409):
        azure.compute.galleries.begin_create_or_update("other", gallery, {"location": azure.location})
    equal(azure.gallery("Name")["properties"]["identifier"]["uniqueName"], f"{azure.subscription}-NAME", "unique name")


def latest_is_resolved_when_an_instance_is_made(azure):
    """The highest version that is Succeeded, replicated in the region and not excluded. An exact version is always used."""
    gallery, definition, snapshot = azure.image_setup()
    versions, group = azure.compute.gallery_image_versions, azure.group
    here = {"name": azure.location}
    make = lambda name, **options: azure.version(gallery, definition, name, snapshot, **options)["id"]
    one = make("1.9.0")
    azure.point_pool_at(azure.definition_id(gallery, definition))
    equal(azure.new_instance_image(), one, "the only version")
    two = make("1.10.0")
    equal(azure.new_instance_image(), two, "numbers, not letters: 1.10.0 is higher than 1.9.0")
    make("0.99.0")
    equal(azure.new_instance_image(), two, "a lower number that is newer")
    excluded = make("2.0.0", excluded=True)
    make("3.0.0", regions=[{**here, "excludeFromLatest": True}, {"name": "eastus"}])
    make("4.0.0", regions=[{"name": "eastus"}])
    try:
        make("5.0.0", storage="Standard_ZRS", regions=[here, {"name": "westcentralus"}])
        raise AssertionError("a version that cannot be replicated succeeded")
    except HttpResponseError:
        equal(versions.get(group, gallery, definition, "5.0.0").as_dict()["properties"]["provisioningState"], "Failed", "5.0.0")
    equal(azure.new_instance_image(), two, "excluded, excluded here, not here, Failed")
    versions.begin_update(group, gallery, definition, "2.0.0", {"properties": {"publishingProfile": {"excludeFromLatest": False}}}).result()
    equal(azure.new_instance_image(), excluded, "included again")
    versions.begin_update(group, gallery, definition, "2.0.0", {"properties": {"publishingProfile": {
        "targetRegions": [{**here, "excludeFromLatest": True}]}}}).result()
    equal(azure.new_instance_image(), two, "excluded in this region")
    azure.point_pool_at(excluded)
    equal(azure.new_instance_image(), excluded, "an exact version, excluded or not")
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(f"{azure.definition_id(gallery, definition)}/versions/4.0.0")
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(f"{azure.definition_id(gallery, definition)}/versions/9.9.9")
    for name in ("0.99.0", "1.9.0", "1.10.0", "3.0.0", "4.0.0", "5.0.0"):
        versions.begin_delete(group, gallery, definition, name).result()
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(azure.definition_id(gallery, definition))


def immutable_properties(azure):
    """Immutable and mutable properties of definitions and versions."""
    gallery, definition, snapshot = azure.image_setup(generation="V1")
    azure.version(gallery, definition, "1.0.0", snapshot)
    images, versions, group = azure.compute.gallery_images, azure.compute.gallery_image_versions, azure.group
    for change in ({"hyperVGeneration": "V2"}, {"architecture": "Arm64"}, {"osState": "Specialized"}, {"osType": "Windows"},
                   {"features": [{"name": "SecurityType", "value": "TrustedLaunch"}]},
                   {"identifier": {"publisher": "kiln", "offer": "other", "sku": "other"}}):
        with refused("PropertyChangeNotAllowed", ResourceExistsError, 409) as caught:
            azure.definition(gallery, definition, **{"generation": change.pop("hyperVGeneration", "V1"), **change})
        contains(caught[0].error.target, "galleryImage.properties")
    images.begin_update(group, gallery, definition, {"properties": {"description": "new"}, "tags": {"hold": "yes"}}).result()
    found = images.get(group, gallery, definition).as_dict()
    equal((found["properties"]["description"], found["tags"]), ("new", {"hold": "yes"}), "description and tags change")

    source = azure.snapshot("another")["id"]
    for change in ({"publishingProfile": {"storageAccountType": "Premium_LRS"}}, {"publishingProfile": {"replicationMode": "Shallow"}},
                   {"storageProfile": {"osDiskImage": {"source": {"id": source}}}}):
        with refused("PropertyChangeNotAllowed", ResourceExistsError, 409):
            versions.begin_update(group, gallery, definition, "1.0.0", {"properties": change})
    changed = versions.begin_update(group, gallery, definition, "1.0.0", {"properties": {"publishingProfile": {
        "targetRegions": [{"name": azure.location, "regionalReplicaCount": 2}, {"name": "eastus"}]}}}).result().as_dict()
    regions = changed["properties"]["publishingProfile"]["targetRegions"]
    equal([(one["name"], one["regionalReplicaCount"], one["storageAccountType"]) for one in regions],
          [("West US 2", 2, "Standard_LRS"), ("East US", 1, "Standard_LRS")], "regions change")
    with refused("InvalidParameter", status=400):
        versions.begin_update(group, gallery, definition, "1.0.0", {"properties": {"publishingProfile": {"targetRegions": [{"name": "atlantis"}]}}})


def a_failed_version_stays(azure):
    """ZRS in a region without it: the operation fails, and the failed version blocks its name until it is deleted."""
    gallery, definition, snapshot = azure.image_setup()
    versions, group = azure.compute.gallery_image_versions, azure.group
    there = [{"name": azure.location}]
    poller = azure.begin_version(gallery, definition, "2026.11.15", snapshot, storage="Standard_ZRS", regions=there)
    with refused("InvalidParameter") as caught:
        poller.result()
    contains(str(caught[0]), "detail:ZRS is not supported in region")
    left = versions.get(group, gallery, definition, "2026.11.15", expand="ReplicationStatus").as_dict()["properties"]
    equal((left["provisioningState"], left["replicationStatus"]["aggregatedState"]), ("Failed", "Failed"), "what is left")
    with refused("PropertyChangeNotAllowed", ResourceExistsError, 409):
        azure.version(gallery, definition, "2026.11.15", snapshot, storage="Standard_LRS", regions=there)
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        azure.version(gallery, definition, "2026.11.15", snapshot, storage="Standard_ZRS", regions=there)
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(azure.definition_id(gallery, definition))
    versions.begin_delete(group, gallery, definition, "2026.11.15").result()
    made = azure.version(gallery, definition, "2026.11.15", snapshot, storage="Standard_LRS", regions=there)
    equal(made["properties"]["provisioningState"], "Succeeded", "the same name with LRS")
    with refused("InvalidParameter", status=400) as caught:
        azure.compute.snapshots.begin_create_or_update(group, "zrs", {
            "location": azure.location, "sku": {"name": "Standard_ZRS"},
            "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": azure.os_disk(0)}}})
    contains(str(caught[0]), "ZRS is not supported in region")


def replication_takes_time(azure):
    """$expand=ReplicationStatus counts up to 100; until then the version cannot be used."""
    gallery, definition, snapshot = azure.image_setup()
    poller = azure.begin_version(gallery, definition, "1.0.0", snapshot, regions=[{"name": azure.location}, {"name": "eastus"}])
    read = lambda: azure.compute.gallery_image_versions.get(
        azure.group, gallery, definition, "1.0.0", expand="ReplicationStatus").as_dict()["properties"]
    first = read()
    equal((first["provisioningState"], first["replicationStatus"]["aggregatedState"]), ("Creating", "InProgress"), "at first")
    equal([one["region"] for one in first["replicationStatus"]["summary"]], ["West US 2", "East US"], "regions")
    with refused("GalleryImageNotFound", ResourceNotFoundError):
        azure.point_pool_at(f"{azure.definition_id(gallery, definition)}/versions/1.0.0")
    progress = []
    while not poller.done():
        now = read()["replicationStatus"]["summary"][0]
        progress.append(now["progress"])
        assert now["state"] == ("Completed" if now["progress"] == 100 else "Replicating"), now
        time.sleep(0.05)
    assert len({one for one in progress if 0 < one < 100}) > 1 and progress == sorted(progress), f"progress went {progress}"
    poller.result()
    last = read()
    equal((last["provisioningState"], last["replicationStatus"]["aggregatedState"], last["replicationStatus"]["summary"][1]["progress"]),
          ("Succeeded", "Completed", 100), "in the end")
    plain = azure.compute.gallery_image_versions.get(azure.group, gallery, definition, "1.0.0").as_dict()["properties"]
    assert "replicationStatus" not in plain, "the status needs $expand"


def nested_resources_go_first(azure):
    """A gallery with definitions and a definition with versions cannot be deleted; deleting a missing one succeeds."""
    gallery, definition, snapshot = azure.image_setup()
    azure.version(gallery, definition, "1.0.0", snapshot)
    compute, group = azure.compute, azure.group
    for remove in (lambda: compute.galleries.begin_delete(group, gallery), lambda: compute.gallery_images.begin_delete(group, gallery, definition)):
        with refused("CannotDeleteResource", ResourceExistsError, 409) as caught:
            remove()
        contains(str(caught[0]), "before nested resources are deleted")
    compute.gallery_image_versions.begin_delete(group, gallery, definition, "1.0.0").result()
    compute.gallery_images.begin_delete(group, gallery, definition).result()
    compute.galleries.begin_delete(group, gallery).result()
    azure.traffic.clear()
    compute.galleries.begin_delete(group, gallery).result()
    equal(azure.traffic.statuses("DELETE"), [204], "deleting what is gone")


def image_source_must_match_the_definition(azure):
    """Generation and security type of definition and source."""
    snapshot = azure.snapshot("of_first_generation")["id"]
    azure.gallery("images")
    azure.definition("images", "second", generation="V2")
    with refused("InvalidParameter", status=400) as caught:
        azure.version("images", "second", "1.0.0", snapshot)
    equal(caught[0].error.target, "hyperVGeneration", "target")
    security = lambda value: [{"name": "SecurityType", "value": value}]
    azure.definition("images", "supported", features=security("TrustedLaunchSupported"))
    with refused("BadRequest", status=400) as caught:
        azure.version("images", "supported", "1.0.0", snapshot)
    contains(str(caught[0]), "TrustedLaunchSupported")
    azure.definition("images", "launched", features=security("TrustedLaunch"))
    azure.version("images", "launched", "1.0.0", snapshot)
    with refused("ResourceNotFound", ResourceNotFoundError, 404):
        azure.version("images", "launched", "1.0.1", azure.id("Microsoft.Compute/snapshots/none"))
    with refused("InvalidParameter", status=400):
        azure.version("images", "launched", "1.0.1", snapshot, storage="Standard_XRS")
    defaults = azure.compute.gallery_image_versions.begin_create_or_update(azure.group, "images", "launched", "1.0.2", {
        "location": azure.location, "properties": {"storageProfile": {"osDiskImage": {"source": {"id": snapshot}}}}}).result().as_dict()
    profile = defaults["properties"]["publishingProfile"]
    equal((profile["replicaCount"], profile["storageAccountType"], profile["excludeFromLatest"],
           [one["name"] for one in profile["targetRegions"]]), (1, "Standard_LRS", False, ["West US 2"]), "defaults")
    assert "replicationMode" not in profile, "Azure does not show the default mode"
    with refused("InvalidParameter", status=400):
        azure.compute.gallery_images.begin_create_or_update(azure.group, "images", "bare", {"location": azure.location, "properties": {"osType": "Linux"}})


def community_images(azure):
    """The versions of a community gallery are listed by region with their dates; a VM can use an exact one or the latest."""
    listed = list(azure.compute.community_gallery_image_versions.list(azure.location, "open-gallery", "node"))
    equal([one.name for one in listed], ["1.9.0", "1.10.0", "2.0.0"], "versions")
    dates = [one.as_dict()["properties"]["publishedDate"][:10] for one in listed]
    equal(dates, ["2026-01-01", "2026-02-01", "2026-03-01"], "dates")
    equal(listed[2].as_dict()["properties"]["excludeFromLatest"], True, "excluded")
    with refused("GalleryImageNotFound", ResourceNotFoundError, 404):
        list(azure.compute.community_gallery_image_versions.list(azure.location, "open-gallery", "other"))

    def machine(name, image):
        interface = azure.id(f"Microsoft.Network/networkInterfaces/{name}")
        made = azure.http("PUT", interface, "2024-05-01", {"location": azure.location, "properties": {"ipConfigurations": []}})
        equal(made.status_code, 201, "an interface")
        body = {"location": azure.location, "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v3"},
            "storageProfile": {"imageReference": {"communityGalleryImageId": image}, "osDisk": {"createOption": "FromImage"}},
            "osProfile": {"computerName": name, "adminUsername": "azureuser"},
            "networkProfile": {"networkInterfaces": [{"id": interface}]}}}
        begun = azure.compute.virtual_machines.begin_create_or_update(azure.group, name, body)
        return begun.result().as_dict()["properties"]["storageProfile"]["imageReference"]["exactVersion"]

    image = "/CommunityGalleries/open-gallery/Images/node"
    equal(machine("exact", f"{image}/Versions/1.9.0"), "1.9.0", "an exact version")
    equal(machine("latest", f"{image}/Versions/latest"), "1.10.0", "the highest that is not excluded")
    with refused("GalleryImageNotFound", ResourceNotFoundError, 404):
        machine("none", f"{image}/Versions/9.9.9")
