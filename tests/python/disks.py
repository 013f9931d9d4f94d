"""Rules for disks, snapshots, standalone VMs and their interfaces."""

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure_under_test import NETWORK, contains, equal, refused, refused_raw


def snapshots_of_a_running_machine(azure):
    """Full and incremental snapshots name their source and outlive it."""
    compute, group = azure.compute, azure.group
    equal(azure.power(0), "PowerState/running", "the machine")
    source = azure.os_disk(0)
    disk = compute.disks.get(group, source.rsplit("/", 1)[1]).as_dict()
    full = azure.snapshot("full", source)
    properties = full["properties"]
    equal((properties["incremental"], properties["diskSizeGB"], properties["diskSizeBytes"], properties["osType"], properties["hyperVGeneration"]),
          (False, 30, 30 << 30, "Linux", disk["properties"]["hyperVGeneration"]), "a full snapshot")
    equal((properties["creationData"]["sourceResourceId"], properties["creationData"]["sourceUniqueId"]),
          (source, disk["properties"]["uniqueId"]), "its source")
    equal(full["sku"]["name"], "Standard_LRS", "the default storage")
    first, second = azure.snapshot("i1", source, incremental=True), azure.snapshot("i2", source, incremental=True)
    families = {one["properties"]["incrementalSnapshotFamilyId"] for one in (first, second)}
    equal((len(families), first["properties"]["incremental"]), (1, True), "increments of one disk")
    assert "completionPercent" not in first["properties"], "a copy in one region is complete when it exists"
    with refused("PropertyChangeNotAllowed", ResourceExistsError, 409):
        azure.snapshot("full", azure.os_disk(1))
    with refused("PropertyChangeNotAllowed", ResourceExistsError, 409):
        azure.snapshot("full", source, incremental=True)
    tagged = compute.snapshots.begin_update(group, "full", {"tags": {"BuiltFrom": "0"}}).result().as_dict()
    equal(tagged["tags"], {"BuiltFrom": "0"}, "tags change")
    with refused("NotFound", ResourceNotFoundError, 404):
        azure.snapshot("none", azure.id("Microsoft.Compute/disks/none"))
    with refused("InvalidParameter", status=400):
        azure.snapshot("none", azure.pool_id())
    with refused("InvalidParameter", status=400):
        azure.snapshot("-bad", source)
    compute.virtual_machine_scale_set_vms.begin_delete(group, "k8s-agentpool1-26100436-vmss", "0").result()
    equal(compute.snapshots.get(group, "full").as_dict()["properties"]["provisioningState"], "Succeeded", "it outlives its source")
    copy = compute.snapshots.begin_create_or_update(group, "copy", {"location": azure.location, "properties": {
        "creationData": {"createOption": "Copy", "sourceResourceId": full["id"]}}}).result().as_dict()
    equal(copy["properties"]["diskSizeGB"], 30, "a snapshot of a snapshot")
    equal(sorted(one.name for one in compute.snapshots.list_by_resource_group(group)), ["copy", "full", "i1", "i2"], "snapshots")


def disks_have_owners(azure):
    """A disk of a running VM cannot be deleted or exported; an unattached one can, and it can grow and not shrink."""
    compute, group = azure.compute, azure.group
    name = azure.os_disk(0).rsplit("/", 1)[1]
    used = compute.disks.get(group, name).as_dict()
    equal((used["managedBy"], used["properties"]["diskState"]), (azure.instance(0)["id"], "Attached"), "an OS disk")
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        compute.disks.begin_delete(group, name)
    access = {"access": "Read", "durationInSeconds": 60}
    with refused("Conflict", ResourceExistsError, 409):
        compute.disks.begin_grant_access(group, name, access)
    compute.virtual_machine_scale_set_vms.begin_deallocate(group, "k8s-agentpool1-26100436-vmss", "0").result()
    equal(compute.disks.get(group, name).as_dict()["properties"]["diskState"], "Reserved", "a deallocated VM")
    snapshot = azure.snapshot("s")["id"]
    body = {"location": azure.location, "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": snapshot}}}
    disk = compute.disks.begin_create_or_update(group, "copy", body).result().as_dict()
    equal((disk["properties"]["diskState"], disk["properties"]["diskSizeGB"], disk["properties"]["osType"]), ("Unattached", 30, "Linux"), "a copy")
    compute.disks.begin_update(group, "copy", {"properties": {"diskSizeGB": 64}}).result()
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        compute.disks.begin_update(group, "copy", {"properties": {"diskSizeGB": 32}})
    with refused("InvalidParameter", status=400):
        compute.disks.begin_create_or_update(group, "empty", {"location": azure.location, "properties": {"creationData": {"createOption": "Empty"}}})
    with refused("ResourceNotFound", ResourceNotFoundError):
        compute.disks.begin_update(group, "none", {"tags": {}})
    state = lambda: compute.disks.get(group, "copy").as_dict()["properties"]["diskState"]
    granted = compute.disks.begin_grant_access(group, "copy", access).result().as_dict()
    assert granted["accessSAS"].startswith("https://"), granted
    equal(state(), "ActiveSAS", "while access is granted")
    compute.disks.begin_revoke_access(group, "copy").result()
    equal(state(), "Unattached", "after access was revoked")
    compute.disks.begin_delete(group, "copy").result()


def standalone_machines(azure):
    """A VM with its interface: created, listed, stopped, and deleted with its dependent resources."""
    compute, group = azure.compute, azure.group
    subnet = azure.id("Microsoft.Network/virtualNetworks/k8s-vnet/subnets/k8s-subnet")

    def interface(name):
        path = azure.id(f"Microsoft.Network/networkInterfaces/{name}")
        answer = azure.http("PUT", path, NETWORK, {"location": azure.location, "properties": {"ipConfigurations": [
            {"name": "ipconfig1", "properties": {"subnet": {"id": subnet}}}]}})
        equal(answer.status_code, 201, name)
        equal(azure.settled(answer)["status"], "Succeeded", name)
        return path

    first, second = interface("first"), interface("second")
    address = azure.http("GET", first, NETWORK).json()["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
    contains(address, ".")
    body = lambda *interfaces, **more: {"location": azure.location, "properties": {
        "hardwareProfile": {"vmSize": "Standard_D2s_v3"}, "userData": "bWluZQ==",
        "osProfile": {"computerName": "alone", "adminUsername": "azureuser", "customData": "c2VjcmV0"},
        "storageProfile": {"imageReference": {"publisher": "P", "offer": "O", "sku": "S", "version": "latest"}, **more},
        "networkProfile": {"networkInterfaces": list(interfaces)}}}
    with refused("InvalidParameter", status=400):
        compute.virtual_machines.begin_create_or_update(group, "alone", body())
    with refused("InvalidResourceReference", status=400):
        compute.virtual_machines.begin_create_or_update(group, "alone", body({"id": f"{first}-none"}))
    goes = {"id": first, "properties": {"primary": True, "deleteOption": "Delete"}}
    osDisk = {"createOption": "FromImage", "deleteOption": "Delete"}
    machine = compute.virtual_machines.begin_create_or_update(
        group, "alone", body(goes, {"id": second}, osDisk=osDisk)).result().as_dict()
    equal(machine["properties"]["provisioningState"], "Succeeded", "the machine's state")
    assert "userData" not in machine["properties"] and "customData" not in machine["properties"]["osProfile"], machine
    equal(compute.virtual_machines.get(group, "alone", expand="userData").as_dict()["properties"]["userData"], "bWluZQ==", "userData")
    with refused("NicInUse", status=400):
        compute.virtual_machines.begin_create_or_update(group, "other", body({"id": first}))
    refused_raw(azure.http("DELETE", first, NETWORK), 400, "NicInUse")
    with refused("PropertyChangeNotAllowed", ResourceExistsError, 409):
        compute.virtual_machines.begin_update(group, "alone", {"properties": {"osProfile": {"adminUsername": "other"}}})
    state = lambda: [one.code for one in compute.virtual_machines.instance_view(group, "alone").statuses][-1]
    equal(state(), "PowerState/running", "power")
    compute.virtual_machines.begin_power_off(group, "alone").result()
    equal(state(), "PowerState/stopped", "power after powerOff")
    compute.virtual_machines.begin_start(group, "alone").result()
    compute.virtual_machines.begin_deallocate(group, "alone").result()
    equal(state(), "PowerState/deallocated", "power after deallocate")
    equal([one.name for one in compute.virtual_machines.list(group)], ["alone"], "machines")
    disk = machine["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"].rsplit("/", 1)[1]
    compute.virtual_machines.begin_delete(group, "alone").result()
    refused_raw(azure.http("GET", first, NETWORK), 404, "ResourceNotFound")
    equal(azure.http("GET", second, NETWORK).status_code, 200, "the interface that was to stay")
    with refused("ResourceNotFound", ResourceNotFoundError):
        compute.disks.get(group, disk)
    equal(azure.http("DELETE", second, NETWORK).status_code, 202, "the interface is unused")
