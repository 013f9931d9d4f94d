"""Rules for scale sets and their instances."""

import base64
import time

import requests
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure_under_test import POOL, contains, equal, refused


def data(text):
    return base64.b64encode(text.encode()).decode()


def found(value, key):
    """Whether a key occurs at any depth of a value."""
    if isinstance(value, dict):
        return key in value or any(found(inner, key) for inner in value.values())
    return isinstance(value, list) and any(found(inner, key) for inner in value)


def hidden_fields_are_never_returned(azure):
    """customData and protectedSettings are never returned; userData only with $expand."""
    compute, group = azure.compute, azure.group
    secret = "kiln-secret-that-must-not-come-back"
    azure.patch_pool({"properties": {"virtualMachineProfile": {"osProfile": {"customData": data(secret)}}}})
    compute.virtual_machine_scale_set_extensions.begin_create_or_update(group, POOL, "script", {"properties": {
        "publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.0",
        "settings": {"open": 1}, "protectedSettings": {"commandToExecute": secret}}}).result()
    azure.scale(3)
    views = [azure.pool(), azure.instances(), azure.instance(0), azure.instance(2, expand="instanceView"),
             [one.as_dict() for one in compute.virtual_machine_scale_sets.list(group)],
             [one.as_dict() for one in compute.virtual_machine_scale_set_extensions.list(group, POOL)],
             compute.virtual_machine_scale_set_extensions.get(group, POOL, "script").as_dict(),
             compute.virtual_machine_scale_sets.get_instance_view(group, POOL).as_dict()]
    for view in views:
        for key in ("customData", "protectedSettings", "userData"):
            assert not found(view, key), f"{key} is in {view}"
    for exchange in azure.traffic.exchanges:
        assert secret.encode() not in exchange.body and data(secret).encode() not in exchange.body, exchange
    equal(views[6]["properties"]["settings"], {"open": 1}, "settings are read")
    equal(azure.pool(expand="userData")["properties"]["virtualMachineProfile"]["userData"], data("of the model"), "of the model")
    equal(azure.instance(0, expand="userData")["properties"]["userData"], data("of the model"), "of an instance")


def put_keeps_hidden_fields(azure):
    """A PUT without the image keeps the image, and one without the hidden fields keeps those."""
    sets, group = azure.compute.virtual_machine_scale_sets, azure.group
    body = azure.pool()
    image = body["properties"]["virtualMachineProfile"]["storageProfile"].pop("imageReference")
    body["tags"] = {"only": "this"}
    azure.traffic.clear()
    sets.begin_create_or_update(group, POOL, body).result()
    equal(azure.traffic.exchanges[0].status, 200, "status of a PUT that changes")
    assert "imageReference" not in azure.traffic.exchanges[0].request_body, "what was sent has no image"
    after = azure.pool(expand="userData")
    equal(after["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"], image, "image")
    equal(after["properties"]["virtualMachineProfile"]["userData"], data("of the model"), "userData")
    equal(after["tags"], {"only": "this"}, "a PUT replaces the properties")
    # The first boot shows that custom data and protected settings still exist.
    azure.scale(3)
    view = azure.instance(2, expand="instanceView")["properties"]["instanceView"]
    equal([one["name"] for one in view["extensions"]], ["vmssCSE"], "extensions of the new instance")
    # A partial reference is completed, and a PUT without properties keeps everything.
    body = azure.pool()
    body["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"] = {"version": "2.0.0"}
    sets.begin_create_or_update(group, POOL, body).result()
    now = azure.pool()["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"]
    equal(now, {**image, "version": "2.0.0"}, "an image with only a version")
    sets.begin_create_or_update(group, POOL, {"location": azure.location, "sku": {**body["sku"], "capacity": 4}}).result()
    now = azure.pool()
    equal((now["sku"]["capacity"], now["tags"], now["properties"]["virtualMachineProfile"]["storageProfile"]["imageReference"]["version"]),
          (4, {"only": "this"}, "2.0.0"), "after a PUT of location and size")
    body = azure.pool()
    body["properties"]["virtualMachineProfile"]["extensionProfile"] = {"extensions": []}
    sets.begin_create_or_update(group, POOL, body).result()
    equal([one.name for one in azure.compute.virtual_machine_scale_set_extensions.list(group, POOL)], [],
          "a PUT with an empty list removes all extensions")


def a_model_has_rules(azure):
    """Immutable properties and invalid values."""
    sets, group = azure.compute.virtual_machine_scale_sets, azure.group
    profile = lambda **values: {"properties": {"virtualMachineProfile": values}}
    before = azure.pool()["etag"]
    for body in (profile(osProfile={"adminUsername": "root2"}), profile(osProfile={"computerNamePrefix": "other"}),
                 profile(priority="Spot"), {"properties": {"orchestrationMode": "Flexible"}},
                 profile(storageProfile={"osDisk": {"osType": "Windows"}})):
        with refused("PropertyChangeNotAllowed", ResourceExistsError, 409) as caught:
            sets.begin_update(group, POOL, body)
        assert caught[0].error.target, "the property is named"
    elsewhere = azure.pool()
    elsewhere["location"] = "eastus"
    with refused("InvalidResourceLocation", ResourceExistsError, 409):
        sets.begin_create_or_update(group, POOL, elsewhere)
    image = {"id": azure.definition_id("none", "none")}
    for body, code, status in (
        ({"sku": {"capacity": 1001}}, "InvalidParameter", 400),
        ({"sku": {"capacity": "many"}}, "InvalidParameter", 400),
        ({"properties": {"upgradePolicy": {"mode": "Sometimes"}}}, "InvalidParameter", 400),
        (profile(userData="not base64!"), "InvalidParameter", 400),
        (profile(storageProfile={"imageReference": {**image, "publisher": "P", "offer": "O", "sku": "S"}}), "InvalidParameter", 400),
        (profile(storageProfile={"imageReference": {"publisher": "P"}}), "InvalidParameter", 400),
        (profile(storageProfile={"imageReference": image}), "GalleryImageNotFound", 404),
    ):
        with refused(code, status=status):
            sets.begin_update(group, POOL, body)
    equal(azure.pool()["etag"], before, "ETag after all those refusals")
    new = {"location": azure.location, "sku": {"name": "Standard_D2s_v3", "capacity": 1}, "properties": {
        "upgradePolicy": {"mode": "Manual"}, "virtualMachineProfile": {"storageProfile": {"imageReference": {
            "publisher": "P", "offer": "O", "sku": "S", "version": "latest"}}}}}
    for missing, code in (("location", "LocationRequired"), ("sku", "InvalidParameter")):
        with refused(code, status=400):
            sets.begin_create_or_update(group, "new", {key: value for key, value in new.items() if key != missing})
    with refused("LocationNotAvailableForResourceType", status=400):
        sets.begin_create_or_update(group, "new", {**new, "location": "atlantis"})
    with refused("InvalidParameter", status=400):
        sets.begin_create_or_update(group, "-new", new)


def upgrade_policies(azure):
    """Manual: no instance. Automatic: all instances. Rolling: in batches."""
    compute, group = azure.compute, azure.group
    change = {"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {
        "publisher": "P", "offer": "O", "sku": "S", "version": "2.0.0"}}}}}
    applied = lambda pool: [one["properties"]["latestModelApplied"] for one in azure.instances(pool)]
    version = lambda pool, number: azure.instance(number, pool)["properties"]["storageProfile"]["imageReference"]["version"]
    before = version("by-hand", 0)
    azure.patch_pool(change, "by-hand")
    equal((applied("by-hand"), version("by-hand", 0)), ([False, False], before), "Manual")
    compute.virtual_machine_scale_sets.begin_update_instances(group, "by-hand", {"instanceIds": ["1"]}).result()
    equal((applied("by-hand"), version("by-hand", 1)), ([False, True], "2.0.0"), "Manual, one upgraded")
    azure.patch_pool({"tags": {"a": "1"}}, "by-hand")
    equal(applied("by-hand"), [False, True], "tags are not the model")
    azure.patch_pool(change, "at-once")
    equal((applied("at-once"), version("at-once", 1)), ([True, True], "2.0.0"), "Automatic")
    equal(azure.power(0, "at-once"), "PowerState/running", "an upgraded machine")
    poller = compute.virtual_machine_scale_sets.begin_update(group, "in-batches", change)
    counts = []
    while not poller.done():
        counts.append(sum(applied("in-batches")))
        time.sleep(0.05)
    poller.result()
    assert any(0 < count < 4 for count in counts) and counts == sorted(counts), f"Rolling went {counts}"
    equal(applied("in-batches"), [True] * 4, "Rolling, in the end")


def protection_is_respected(azure):
    """Scale-in deletes the newest unprotected instances; actions on the set skip protected ones."""
    compute, group = azure.compute, azure.group
    vms = compute.virtual_machine_scale_set_vms
    protect = lambda number, **policy: vms.begin_update(
        group, POOL, str(number), {"location": azure.location, "properties": {"protectionPolicy": policy}}).result().as_dict()
    protect(9, protectFromScaleIn=True)
    protect(7, protectFromScaleSetActions=True)
    azure.scale(7)
    equal([one["instanceId"] for one in azure.instances()], ["0", "1", "2", "3", "4", "7", "9"], "who is left")
    compute.virtual_machine_scale_sets.begin_power_off(group, POOL).result()
    powers = {number: azure.power(number) for number in (0, 7, 9)}
    equal(powers, {0: "PowerState/stopped", 7: "PowerState/running", 9: "PowerState/stopped"}, "powerOff of all")
    compute.virtual_machine_scale_sets.begin_start(group, POOL, {"instanceIds": ["*"]}).result()
    # An update of one property of an instance keeps the other.
    tags = azure.instance(9)["tags"]
    vms.begin_update(group, POOL, "9", {"location": azure.location, "tags": {"mine": "1"}, "properties": {"userData": data("mine")}}).result()
    one = azure.instance(9, expand="userData")
    equal((one["properties"]["protectionPolicy"]["protectFromScaleIn"], one["properties"]["userData"]), (True, data("mine")), "instance 9")
    equal(one["tags"], tags, "an instance update does not change tags")
    compute.virtual_machine_scale_sets.begin_delete_instances(group, POOL, {"instanceIds": ["9"]}).result()
    with refused("ResourceNotFound", ResourceNotFoundError):
        azure.instance(9)


def user_data_reaches_the_machine(azure):
    """The VM reads the userData of its last instance update; other VMs read the model's."""
    read = lambda name: requests.get(
        f"{azure.imds}/vm/{name}/metadata/instance/compute/userData", params={"api-version": "2021-01-01", "format": "text"},
        headers={"Metadata": "true"}, timeout=30).text
    names = [one["properties"]["osProfile"]["computerName"] for one in azure.instances()]
    equal(read(names[0]), data("of the model"), "before")
    azure.compute.virtual_machine_scale_set_vms.begin_update(
        azure.group, POOL, "0", {"location": azure.location, "properties": {"userData": data("second")}}).result()
    equal((read(names[0]), read(names[1])), (data("second"), data("of the model")), "after")


def machines_take_time(azure):
    """Intermediate states of power and boot are visible."""
    compute, group = azure.compute, azure.group
    vms = compute.virtual_machine_scale_set_vms
    seen = []

    def watch(poller, number):
        states = []
        while not poller.done():
            try:
                state = azure.power(number)
            except ResourceNotFoundError:
                continue
            if not states or states[-1] != state:
                states.append(state)
            time.sleep(0.02)
        poller.result()
        seen.append(states)

    watch(vms.begin_power_off(group, POOL, "0"), 0)
    watch(vms.begin_start(group, POOL, "0"), 0)
    watch(vms.begin_deallocate(group, POOL, "0"), 0)
    equal([states[0] for states in seen], [f"PowerState/{word}" for word in ("stopping", "starting", "deallocating")], "on the way")
    equal(azure.power(0), "PowerState/deallocated", "in the end")
    poller = compute.virtual_machine_scale_sets.begin_update(group, POOL, {"sku": {"capacity": 3}})
    new = azure.instance(2, expand="instanceView")["properties"]
    equal(new["provisioningState"], "Creating", "a new machine")
    contains(new["instanceView"]["vmAgent"]["statuses"][0]["displayStatus"], "Not Ready")
    poller.result()
    new = azure.instance(2, expand="instanceView")["properties"]
    equal((new["provisioningState"], new["instanceView"]["vmAgent"]["statuses"][0]["displayStatus"]), ("Succeeded", "Ready"), "after its boot")


def restart_needs_a_running_machine(azure):
    """Start and stop are idempotent, restart is not."""
    compute, group = azure.compute, azure.group
    vms = compute.virtual_machine_scale_set_vms
    vms.begin_start(group, POOL, "0").result()
    vms.begin_power_off(group, POOL, "0").result()
    vms.begin_power_off(group, POOL, "0").result()
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        vms.begin_restart(group, POOL, "0")
    vms.begin_start(group, POOL, "0").result()
    equal(azure.power(0), "PowerState/running", "in the end")
    with refused("InvalidParameter", status=400):
        compute.virtual_machine_scale_sets.begin_update_instances(group, POOL, {"instanceIds": ["77"]})
    with refused("InvalidParameter", status=400):
        compute.virtual_machine_scale_sets.begin_delete_instances(group, POOL, {})
