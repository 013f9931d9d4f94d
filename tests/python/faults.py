"""Each kind of fault, as a real client sees it."""

from azure.core.exceptions import (ClientAuthenticationError, HttpResponseError, ResourceExistsError, ResourceNotFoundError,
                                   ServiceResponseError)
from azure_under_test import POOL, contains, equal, refused, refused_raw


def applied_but_failed(azure):
    """The operation reports Failed, but the snapshot exists and is complete."""
    with refused("InternalExecutionError"):
        azure.snapshot("s")
    equal(azure.compute.snapshots.get(azure.group, "s").as_dict()["properties"]["provisioningState"], "Succeeded", "the snapshot")
    equal(azure.snapshot("s")["name"], "s", "the second read")


def success_but_not_applied(azure):
    """The operation reports Succeeded without any effect."""
    before = azure.pool()
    poller = azure.compute.virtual_machine_scale_sets.begin_update(azure.group, POOL, {"sku": {"capacity": 12}})
    poller.result()
    equal(poller.status(), "Succeeded", "the status of the poller")
    after = azure.pool()
    equal((after["sku"]["capacity"], after["etag"], len(azure.instances())), (10, before["etag"], 10), "what there is")
    equal(azure.scale(12)["sku"]["capacity"], 12, "a second try")


def reset_after_processing(azure):
    """The connection breaks after the write was executed."""
    try:
        azure.compute.virtual_machine_scale_sets.begin_update(
            azure.group, POOL, {"tags": {"run": "7"}}, retry_total=0, retry_read=0, retry_connect=0)
        raise AssertionError("the connection held")
    except HttpResponseError as error:
        raise AssertionError("there was an answer") from error
    except (ServiceResponseError, OSError) as error:
        contains(type(error).__name__, "Error")
    equal(azure.pool()["tags"]["run"], "7", "the write")


def allocation_failed(azure):
    """Without capacity the start fails and the VM stays off; a second attempt works."""
    vms = azure.compute.virtual_machine_scale_set_vms
    vms.begin_deallocate(azure.group, POOL, "0").result()
    with refused("AllocationFailed") as caught:
        vms.begin_start(azure.group, POOL, "0").result()
    contains(str(caught[0]), "sufficient capacity")
    assert azure.power(0) != "PowerState/running", "a machine without hardware does not run"
    equal(azure.instance(0)["properties"]["provisioningState"], "Failed", "its state")
    vms.begin_start(azure.group, POOL, "0").result()
    equal((azure.power(0), azure.instance(0)["properties"]["provisioningState"]), ("PowerState/running", "Succeeded"), "a second try")


def quota_exceeded(azure):
    """Without quota the scale-out fails."""
    with refused("QuotaExceeded") as caught:
        azure.scale(12)
    contains(str(caught[0]), "quota")
    equal(azure.pool()["properties"]["provisioningState"], "Failed", "the pool's state")
    states = {one["properties"]["provisioningState"] for one in azure.instances()[10:]}
    assert states <= {"Failed"}, f"instances that could not be made are {states}"
    equal(azure.patch_pool({"tags": {"a": "1"}})["properties"]["provisioningState"], "Succeeded", "the next write repairs it")


def zrs_not_supported(azure):
    """Zone-redundant storage fails in a region with zones; LRS works after the failed version is deleted."""
    gallery, definition, snapshot = azure.image_setup()
    with refused("InvalidParameter") as caught:
        azure.version(gallery, definition, "1.0.0", snapshot, storage="Standard_ZRS")
    contains(str(caught[0]), "detail:ZRS is not supported")
    versions = azure.compute.gallery_image_versions
    equal(versions.get(azure.group, gallery, definition, "1.0.0").as_dict()["properties"]["provisioningState"], "Failed", "what is left")
    versions.begin_delete(azure.group, gallery, definition, "1.0.0").result()
    azure.version(gallery, definition, "1.0.0", snapshot, storage="Standard_LRS")


def status_url_missing(azure):
    """The status URL returns 404 while the operation continues. The SDK fails; reading the resource works."""
    with refused("OperationNotFound", status=404):
        azure.compute.galleries.begin_create_or_update(azure.group, "images", {"location": azure.location}).result()
    equal(azure.compute.galleries.get(azure.group, "images").as_dict()["properties"]["provisioningState"], "Succeeded", "the gallery")
    answer = azure.http("POST", f"{azure.pool_id()}/powerOff", body={"instanceIds": ["0"]})
    refused_raw(azure.http("GET", answer.headers["Azure-AsyncOperation"]), 404, "OperationNotFound")
    equal(azure.http("GET", answer.headers["Location"]).status_code, 200, "the other URL, when the plan is used up")


def stale_read(azure):
    """One read returns the state before the last write."""
    before = azure.pool()
    azure.http("PATCH", azure.pool_id(), body={"tags": {"run": "7"}})
    stale = azure.pool()
    equal((stale["etag"], "run" in stale["tags"]), (before["etag"], False), "the first read")
    fresh = azure.pool()
    assert fresh["etag"] != before["etag"], "the ETag of a write"
    equal(fresh["tags"]["run"], "7", "the second read")


def token_expires(azure):
    """All issued tokens are rejected during an operation. It continues, and a new token can poll it."""
    poller = azure.compute.galleries.begin_create_or_update(azure.group, "images", {"location": azure.location})
    with refused("ExpiredAuthenticationToken", status=401):
        poller.result()
    with refused("ExpiredAuthenticationToken", ClientAuthenticationError, 401):
        azure.pool()
    again = azure.client()
    equal(again.galleries.get(azure.group, "images").as_dict()["properties"]["provisioningState"], "Succeeded", "with a new token")


def preempted(azure):
    """The operation is preempted by another one; it ends with its own code and can be retried."""
    vms = azure.compute.virtual_machine_scale_set_vms
    with refused("OperationPreempted") as caught:
        vms.begin_power_off(azure.group, POOL, "0").result()
    contains(str(caught[0]), "more recent operation")
    vms.begin_power_off(azure.group, POOL, "0").result()
    equal(azure.power(0), "PowerState/stopped", "a second try")


def rules_choose_their_requests(azure):
    """`skip`, `times`, `action`, `name`: exactly the second and third start of one instance fail."""
    vms = azure.compute.virtual_machine_scale_set_vms
    outcomes = []
    for _ in range(4):
        vms.begin_power_off(azure.group, POOL, "0").result()
        try:
            vms.begin_start(azure.group, POOL, "0").result()
            outcomes.append("ok")
        except HttpResponseError as error:
            outcomes.append(error.error.code)
        vms.begin_power_off(azure.group, POOL, "1").result()
        vms.begin_start(azure.group, POOL, "1").result()
    equal(outcomes, ["ok", "AllocationFailed", "AllocationFailed", "ok"], "starts of instance 0")
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        vms.begin_power_off(azure.group, POOL, "0").result()
        vms.begin_restart(azure.group, POOL, "0")
    with refused("ResourceNotFound", ResourceNotFoundError):
        vms.get(azure.group, POOL, "99")
