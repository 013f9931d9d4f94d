"""Rules for all resources: long-running operations, paging, ETags, throttling, API versions, paths, errors, ids."""

import uuid

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.core.polling.base_polling import LocationPolling
from azure.mgmt.core.polling.arm_polling import ARMPolling, AzureAsyncOperationPolling, BodyContentPolling
from azure_under_test import COMPUTE, DISK, GALLERY, GROUPS, NETWORK, POOL, SUBSCRIPTIONS, contains, equal, refused, refused_raw


def polls(azure, start):
    """The responses that a poller received after the first one."""
    azure.traffic.clear()
    result = start().result()
    first, *rest = azure.traffic.exchanges
    return result, first, rest


def long_operations_by_status_url(azure):
    """The SDK's default: polls `Azure-AsyncOperation`, then reads the resource of a PUT or the `Location` of a POST.

    Azure sends `Location` only with a 202.
    """
    compute, group = azure.compute, azure.group
    made, first, rest = polls(azure, lambda: compute.galleries.begin_create_or_update(group, "slow", {"location": azure.location}))
    equal(first.status, 201, "status of a PUT that creates")
    equal(first.json()["properties"]["provisioningState"], "Creating", "state in the first answer")
    status_url = first.headers["Azure-AsyncOperation"]
    contains(status_url, f"{azure.arm}/subscriptions/{azure.subscription}/providers/Microsoft.Compute/locations/{azure.location}/")
    contains(status_url, "api-version=")
    assert int(first.headers["Retry-After"]) >= 1 and "Location" not in first.headers
    states = [one.json()["status"] for one in rest[:-1]]
    equal((states[0], states[-1]), ("InProgress", "Succeeded"), "states on the way")
    assert {"name", "startTime", "endTime"} <= rest[-2].json().keys(), "a status that has ended tells when"
    assert "endTime" not in rest[0].json(), "a status that has not ended does not"
    contains(rest[-1].url, "/galleries/slow")
    equal(made.as_dict()["properties"]["provisioningState"], "Succeeded", "state at the end")

    azure.traffic.clear()
    compute.virtual_machine_scale_sets.begin_power_off(group, POOL, {"instanceIds": ["0"]}).result()
    first, *rest = azure.traffic.exchanges
    equal(first.status, 202, "status of a POST")
    equal(rest[0].json()["status"], "InProgress", "the first poll of a POST")
    equal((rest[-1].url, rest[-1].status), (first.headers["Location"], 200), "the end of a POST without a result")

    _, first, rest = polls(azure, lambda: compute.galleries.begin_delete(group, "slow"))
    equal((first.status, rest[-1].json()["status"]), (202, "Succeeded"), "a DELETE")
    with refused("ResourceNotFound", ResourceNotFoundError):
        compute.galleries.get(group, "slow")


def long_operations_by_location(azure):
    """A poller that uses only `Location`: 202 while it runs, then 200, with the resource if the request returns one."""
    compute, group = azure.compute, azure.group
    by_location = lambda: ARMPolling(timeout=1, lro_algorithms=[LocationPolling()])
    copy = {"location": azure.location, "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": azure.os_disk(0)}}}
    made, first, rest = polls(azure, lambda: compute.snapshots.begin_create_or_update(group, "slow", copy, polling=by_location()))
    equal(first.status, 202, "status of a PUT with a Location")
    assert all(one.url == first.headers["Location"] for one in rest if "/snapshots/slow" not in one.url)
    polled = [one for one in rest if one.url == first.headers["Location"]]
    equal((polled[0].status, polled[-1].status), (202, 200), "statuses of the Location of a PUT")
    equal(polled[-1].json()["name"], "slow", "what it gives in the end")
    equal(made.as_dict()["properties"]["provisioningState"], "Succeeded", "state at the end")
    _, _, rest = polls(azure, lambda: compute.virtual_machine_scale_sets.begin_power_off(
        group, POOL, {"instanceIds": ["0"]}, polling=by_location()))
    equal((rest[0].status, rest[-1].status), (202, 200), "statuses of the Location of a POST")


def long_operations_by_resource_state(azure):
    """A poller that reads only the resource, until `provisioningState` is final."""
    compute, group = azure.compute, azure.group
    by_state = ARMPolling(timeout=1, lro_algorithms=[BodyContentPolling()])
    _, first, rest = polls(azure, lambda: compute.galleries.begin_create_or_update(
        group, "slow", {"location": azure.location}, polling=by_state))
    states = [one.json()["properties"]["provisioningState"] for one in [first, *rest]]
    equal((states[0], states[1], states[-1]), ("Creating", "Creating", "Succeeded"), "states of a new gallery")
    by_state = ARMPolling(timeout=1, lro_algorithms=[BodyContentPolling()])
    _, first, rest = polls(azure, lambda: compute.galleries.begin_update(group, "slow", {"tags": {"a": "1"}}, polling=by_state))
    states = [one.json()["properties"]["provisioningState"] for one in [first, *rest]]
    equal((states[0], states[-1]), ("Updating", "Succeeded"), "states of a gallery that is updated")


def long_operations_outlive_their_client(azure):
    """Another process can continue a poller from its continuation token."""
    compute, group = azure.compute, azure.group
    token = compute.galleries.begin_create_or_update(group, "slow", {"location": azure.location}).continuation_token()
    again = azure.client().galleries.begin_create_or_update(
        group, "slow", {"location": azure.location}, continuation_token=token,
        polling=ARMPolling(timeout=1, lro_algorithms=[AzureAsyncOperationPolling()]))
    equal(again.result().as_dict()["properties"]["provisioningState"], "Succeeded", "state at the end")
    equal(azure.traffic.statuses("PUT"), [201], "it is created once")


def lists_come_in_pages(azure):
    """Three items per page: the SDK follows absolute links, which keep `$expand`."""
    compute, group = azure.compute, azure.group
    azure.traffic.clear()
    instances = azure.instances(expand="instanceView")
    equal([one["instanceId"] for one in instances], [str(number) for number in range(10)], "instances of all pages, in order")
    assert all("instanceView" in one["properties"] for one in instances), "the expansion holds on every page"
    pages = [one.json() for one in azure.traffic.exchanges]
    equal([len(page["value"]) for page in pages], [3, 3, 3, 1], "items per page")
    assert pages[0]["nextLink"].startswith(f"{azure.arm}/subscriptions/") and "nextLink" not in pages[-1]
    equal(len(list(compute.disks.list())), 10, "OS disks in the subscription")
    equal(len(list(compute.disks.list_by_resource_group(group))), 10, "OS disks in the group")
    equal([one.name for one in compute.virtual_machine_scale_set_extensions.list(group, POOL)],
          ["vmssCSE", "computeAksLinuxBilling"], "a list that fits on one page")
    groups = [f"group-{number}" for number in range(4)]
    for name in groups:
        equal(azure.http("PUT", azure.scope(group=name), GROUPS, {"location": azure.location}).status_code, 201, name)
    page = azure.http("GET", f"/subscriptions/{azure.subscription}/resourcegroups", GROUPS).json()
    found = [one["name"] for one in page["value"]]
    while "nextLink" in page:
        page = azure.http("GET", page["nextLink"]).json()
        found += [one["name"] for one in page["value"]]
    equal(sorted(found), sorted([*groups, group]), "resource groups")
    refused_raw(azure.http("GET", f"{azure.pool_id()}/virtualMachines", query={"$skiptoken": "junk"}), 400, "InvalidSkipToken")


def writes_can_be_conditional(azure):
    """ETags of scale sets and of instances."""
    sets, vms, group = azure.compute.virtual_machine_scale_sets, azure.compute.virtual_machine_scale_set_vms, azure.group
    azure.traffic.clear()
    pool = azure.pool()
    equal(azure.traffic.exchanges[-1].headers["ETag"], pool["etag"], "ETag of header and body")
    assert pool["etag"].startswith('"'), "an ETag is quoted"
    equal(azure.pool()["etag"], pool["etag"], "a read changes nothing")
    tag = lambda value, **condition: azure.patch_pool({"tags": {"run": value}}, **condition)
    unless_changed = {"match_condition": MatchConditions.IfNotModified}
    second = tag("1", etag=pool["etag"], **unless_changed)
    (write,) = [one for one in azure.traffic.exchanges if one.method == "PATCH"]
    equal(write.request_headers["If-Match"], pool["etag"], "what the SDK sends")
    assert second["etag"] != pool["etag"], "a write changes the ETag"
    with refused("PreconditionFailed", ResourceModifiedError, 412):
        tag("2", etag=pool["etag"], **unless_changed)
    equal(azure.pool()["tags"]["run"], "1", "a refused write does nothing")
    third = azure.scale(9)
    assert third["etag"] != second["etag"], "capacity is a write too"
    tag("3", match_condition=MatchConditions.IfPresent)
    with refused("PreconditionFailed", ResourceExistsError, 412):
        sets.begin_create_or_update(group, POOL, pool, match_condition=MatchConditions.IfMissing)
    with refused("PreconditionFailed", ResourceNotFoundError, 412):
        sets.begin_update(group, "nowhere", {"tags": {}}, match_condition=MatchConditions.IfPresent)
    with refused("ResourceNotFound", ResourceNotFoundError, 404):
        sets.begin_update(group, "nowhere", {"tags": {}})

    one = azure.instance(0)
    body = {"location": azure.location, "properties": {"protectionPolicy": {"protectFromScaleIn": True}}}
    changed = vms.begin_update(group, POOL, "0", body, etag=one["etag"], **unless_changed).result().as_dict()
    assert changed["etag"] != one["etag"], "an instance has its own ETag"
    with refused("PreconditionFailed", ResourceModifiedError, 412):
        vms.begin_update(group, POOL, "0", body, etag=one["etag"], **unless_changed)


def throttled_reads_are_tried_again(azure):
    """The fault plan throttles two reads by ARM and two by Compute. The SDK waits for `Retry-After` and retries."""
    azure.traffic.clear()
    azure.pool()
    exchanges = list(azure.traffic.exchanges)
    equal([one.status for one in exchanges], [429, 429, 200], "reads that ARM throttles")
    error = exchanges[0].json()["error"]
    equal(error["code"], "SubscriptionRequestsThrottled", "ARM's code")
    wait = exchanges[0].headers["Retry-After"]
    assert int(wait) >= 1
    contains(error["message"], f"{wait} seconds")
    azure.traffic.clear()
    azure.compute.disks.get(azure.group, azure.os_disk(0).rsplit("/", 1)[1])
    exchanges = [one for one in azure.traffic.exchanges if "/disks/" in one.url]
    equal([one.status for one in exchanges], [429, 429, 200], "reads that Compute throttles")
    error = exchanges[0].json()["error"]
    equal((error["code"], error["details"][0]["code"]), ("OperationNotAllowed", "TooManyRequests"), "Compute's codes")
    assert int(exchanges[0].headers["Retry-After"]) >= 1


def throttling_of_writes(azure):
    """A throttled write is not executed. The SDK retries it and it is executed once."""
    before = azure.pool()["etag"]
    azure.traffic.clear()
    with refused("OperationNotAllowed", status=429):
        azure.compute.virtual_machine_scale_sets.begin_update(
            azure.group, POOL, {"tags": {"a": "1"}}, retry_total=0, retry_status=0)
    equal(azure.pool()["etag"], before, "ETag after a throttled write")
    azure.traffic.clear()
    azure.patch_pool({"tags": {"a": "2"}})
    equal(azure.traffic.statuses("PATCH"), [429, 200], "a write that is throttled once")
    equal(azure.pool()["tags"]["a"], "2", "the tag")


def budgets_run_out(azure):
    """Requests are counted per kind. An empty bucket returns 429, until the time in `Retry-After` has passed."""
    left = lambda response, kind: int(response.headers[f"x-ms-ratelimit-remaining-subscription-{kind}"])
    read = lambda: azure.http("GET", azure.pool_id())
    first = read()
    policies = first.headers["x-ms-ratelimit-remaining-resource"]
    for family in ("GetVMScaleSetSubscriptionMaximum", "GetVMScaleSetResource"):
        contains(policies, f"Microsoft.Compute/{family};")
    equal(first.headers["x-ms-request-charge"], "1", "charge")
    write = azure.http("PATCH", azure.pool_id(), body={"tags": {}})
    removal = azure.http("DELETE", azure.id("Microsoft.Compute/disks/none"), DISK)
    assert left(write, "writes") <= 200 and left(removal, "deletes") <= 200
    for _ in range(3_000):
        last = read()
        if last.status_code == 429:
            break
    error = refused_raw(last, 429, "SubscriptionRequestsThrottled")
    contains(error["message"], last.headers["Retry-After"])
    assert "x-ms-ratelimit-remaining-subscription-reads" not in last.headers or left(last, "reads") == 0
    equal(azure.http("PATCH", azure.pool_id(), body={"tags": {}}).status_code, 200, "writes have a separate bucket")
    azure.traffic.clear()
    azure.pool()
    equal(azure.traffic.statuses()[-1], 200, "the SDK gets through")


def versions_are_checked_per_type(azure):
    """The API version must be present, known, and of this resource type."""
    compute, group = azure.compute, azure.group
    refused_raw(azure.http("GET", azure.pool_id(), None), 400, "MissingApiVersionParameter")
    refused_raw(azure.http("GET", azure.scope(), None), 400, "MissingApiVersionParameter")
    with refused("NoRegisteredProviderFound", status=400) as caught:
        compute.virtual_machine_scale_sets.get(group, POOL, api_version="1999-01-01")
    contains(str(caught[0]), "2024-03-01")
    with refused("NoRegisteredProviderFound", status=400):
        compute.snapshots.get(group, "none", api_version=GALLERY)
    with refused("NoRegisteredProviderFound", status=400):
        list(compute.galleries.list(api_version=COMPUTE))
    with refused("NoRegisteredProviderFound", status=400):
        compute.virtual_machine_scale_sets.get(group, POOL, api_version="2031-02-30")
    refused_raw(azure.http("GET", azure.scope(), "1999-01-01"), 400, "InvalidApiVersionParameter")
    # A version that is newer than the known ones.
    equal(compute.virtual_machine_scale_sets.get(group, POOL, api_version="2031-02-28").name, POOL, "the newest version")
    # The versions that the current SDK and az send.
    for path, versions in {
        f"/subscriptions/{azure.subscription}": [SUBSCRIPTIONS],
        azure.scope(): [GROUPS, "2024-11-01"],
        azure.pool_id(): [COMPUTE, "2024-11-01", "2026-03-01", "2026-04-01"],
        f"{azure.pool_id()}/virtualMachines": [COMPUTE, "2024-11-01", "2026-04-01"],
        azure.id("Microsoft.Compute/snapshots"): [DISK, "2025-01-02", "2026-03-02"],
        azure.id("Microsoft.Compute/disks"): [DISK, "2026-03-02"],
        azure.id("Microsoft.Compute/galleries"): ["2021-10-01", GALLERY, "2024-03-03", "2026-03-03"],
        azure.id("Microsoft.Network/virtualNetworks"): [NETWORK],
    }.items():
        for version in versions:
            equal(azure.http("GET", path, version).status_code, 200, f"{path} {version}")


def paths_ignore_case(azure):
    """Requests ignore case, responses use the spelling of the creation."""
    compute = azure.compute
    expected = azure.pool()
    shouted = compute.virtual_machine_scale_sets.get(azure.group.upper(), POOL.upper()).as_dict()
    equal((shouted["id"], shouted["name"]), (expected["id"], POOL), "a pool with an upper-case name")
    path = azure.pool_id().replace("resourceGroups", "resourcegroups").replace("virtualMachineScaleSets", "VIRTUALMACHINESCALESETS")
    path = path.replace("Microsoft.Compute", "microsoft.compute")
    equal(azure.http("GET", path).json()["id"], expected["id"], "a path of another case")
    for verb in ("poweroff", "POWEROFF", "powerOff"):
        equal(azure.http("POST", f"{azure.pool_id()}/{verb}", body={"instanceIds": ["0"]}).status_code, 202, verb)
    azure.gallery("Mixed_Case")
    equal(compute.galleries.get(azure.group, "mixed_case").name, "Mixed_Case", "the spelling of creation")
    azure.gallery("MIXED_CASE")
    equal([one.name for one in compute.galleries.list()], ["Mixed_Case"], "a single gallery")


def errors_have_one_envelope(azure):
    """All errors have code, message, target and details."""
    compute, group = azure.compute, azure.group
    with refused("ResourceNotFound", ResourceNotFoundError, 404) as caught:
        azure.pool("nowhere")
    contains(str(caught[0]), f"Microsoft.Compute/virtualMachineScaleSets/nowhere' under resource group '{group}' was not found")
    with refused("ResourceGroupNotFound", ResourceNotFoundError, 404):
        compute.virtual_machine_scale_sets.get("nowhere", POOL)
    with refused("ResourceGroupNotFound", ResourceNotFoundError, 404):
        compute.snapshots.begin_create_or_update("nowhere", "s", {"location": azure.location})
    with refused("ParentResourceNotFound", ResourceNotFoundError, 404):
        azure.definition("nowhere", "image")
    with refused("ParentResourceNotFound", ResourceNotFoundError, 404):
        list(compute.virtual_machine_scale_set_vms.list(group, "nowhere"))
    with refused("InvalidParameter", status=400) as caught:
        compute.snapshots.begin_create_or_update(group, "s", {"location": azure.location, "properties": {"creationData": {}}})
    equal(caught[0].error.target, "creationData.createOption", "target")
    with refused("InvalidParameter", status=400):
        compute.virtual_machine_scale_sets.begin_power_off(group, POOL, {"instanceIds": ["99"]})
    refused_raw(azure.http("GET", azure.id("Microsoft.Nowhere/things/one")), 404, "InvalidResourceType")
    refused_raw(azure.http("GET", f"{azure.scope()}/nonsense/x"), 404, "InvalidResourceType")
    refused_raw(azure.http("POST", f"{azure.pool_id()}/levitate"), 404, "InvalidResourceType")
    refused_raw(azure.http("POST", azure.pool_id()), 405, "HttpMethodNotSupported")
    broken = azure.http("PUT", azure.pool_id(), headers={"Content-Type": "application/json"}, body=[1])
    refused_raw(broken, 400, "InvalidRequestContent")
    refused_raw(azure.http("GET", f"/subscriptions/{azure.subscription}/providers/Microsoft.Compute/locations/{azure.location}/operations/{uuid.uuid4()}"),
                404, "OperationNotFound")


def requests_have_ids(azure):
    """Responses echo the client's id. Azure's own ids are new for each request."""
    azure.traffic.clear()
    mine = str(uuid.uuid4())
    azure.compute.virtual_machine_scale_sets.get(azure.group, POOL, request_id=mine)
    equal(azure.traffic.exchanges[0].headers["x-ms-client-request-id"], mine, "the client's id")
    azure.pool()
    first, second = (one.headers for one in azure.traffic.exchanges)
    for name in ("x-ms-request-id", "x-ms-correlation-request-id", "x-ms-routing-request-id"):
        assert first[name] and first[name] != second[name], name
    correlation = str(uuid.uuid4())
    answer = azure.http("GET", azure.pool_id(), headers={"x-ms-correlation-request-id": correlation})
    equal(answer.headers["x-ms-correlation-request-id"], correlation, "a correlation that the client began")
    missing = azure.http("GET", azure.pool_id("nowhere"))
    equal(missing.status_code, 404, "a refusal")
    assert missing.headers["x-ms-request-id"], "refusals have an id too"


def two_operations_on_one_resource(azure):
    """A second operation on a locked resource is rejected, also during a deletion."""
    compute, group = azure.compute, azure.group
    poller = compute.galleries.begin_create_or_update(group, "busy", {"location": azure.location})
    with refused("OperationNotAllowed", ResourceExistsError, 409) as caught:
        compute.galleries.begin_update(group, "busy", {"tags": {"a": "1"}})
    contains(str(caught[0]), "Another operation is in progress")
    poller.result()
    stopping = compute.virtual_machine_scale_sets.begin_power_off(group, POOL, {"instanceIds": ["0"]})
    with refused("OperationNotAllowed", ResourceExistsError, 409):
        compute.virtual_machine_scale_set_vms.begin_start(group, POOL, "0")
    compute.virtual_machine_scale_set_vms.begin_start(group, POOL, "1").result()
    stopping.result()
    removal = compute.galleries.begin_delete(group, "busy")
    with refused("OperationNotAllowed", ResourceExistsError, 409) as caught:
        compute.galleries.begin_update(group, "busy", {"tags": {"a": "1"}})
    contains(str(caught[0]), "marked for deletion")
    removal.result()


def clouds_and_subscriptions_are_found(azure):
    """The first requests of a client."""
    endpoints = azure.http("GET", "/metadata/endpoints", GROUPS, headers={"Authorization": None}).json()
    assert isinstance(endpoints, dict), "one object: the command that registers a cloud cannot read a list"
    equal((endpoints["resourceManager"], endpoints["authentication"]["loginEndpoint"]), (azure.arm, azure.authority), "endpoints")
    listed = azure.http("GET", "/subscriptions", SUBSCRIPTIONS).json()["value"]
    equal([(one["subscriptionId"], one["tenantId"], one["state"]) for one in listed],
          [(azure.subscription, azure.tenant, "Enabled")], "subscriptions")
    locations = azure.http("GET", f"/subscriptions/{azure.subscription}/locations", SUBSCRIPTIONS).json()["value"]
    assert azure.location in [one["name"] for one in locations]
    equal(azure.http("GET", azure.scope(), GROUPS).json()["location"], azure.location, "location of the group")
    equal(azure.http("HEAD", azure.scope(), GROUPS).status_code, 204, "the group exists")
    equal(azure.http("HEAD", azure.scope(group="nowhere"), GROUPS).status_code, 404, "another instance")
    scope = azure.scope(group="other")
    equal(azure.http("PUT", scope, GROUPS, {"location": azure.location, "tags": {"a": "1"}}).status_code, 201, "a new group")
    azure.compute.disks.begin_create_or_update("other", "data", {"location": azure.location, "properties": {
        "creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}).result()
    equal([one["name"] for one in azure.http("GET", f"{scope}/resources", GROUPS).json()["value"]], ["data"], "what is in it")
    gone = azure.http("DELETE", scope, GROUPS)
    equal(gone.status_code, 202, "deletion of a group is a long operation")
    equal(azure.settled(gone)["status"], "Succeeded", "its end")
    refused_raw(azure.http("GET", scope, GROUPS), 404, "ResourceGroupNotFound")
    assert "data" not in [one.name for one in azure.compute.disks.list()], "what was in the group is gone with it"
    skus = {one.name for one in azure.compute.resource_skus.list(filter=f"location eq '{azure.location}'")}
    assert azure.pool()["sku"]["name"] in skus, "the pool's size is on offer"
