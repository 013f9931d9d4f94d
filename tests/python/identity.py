"""Logins and roles."""

import os
import time
import uuid

from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError
from azure.identity import CredentialUnavailableError, ManagedIdentityCredential, WorkloadIdentityCredential
from azure_under_test import NETWORK, POOL, contains, equal, refused, refused_raw


def log_in_fails(credential, azure, code):
    try:
        credential.get_token(f"{azure.arm}/.default")
    except ClientAuthenticationError as error:
        contains(str(error), f"AADSTS{code}:" if isinstance(code, int) else code)
        return error
    raise AssertionError(f"logged in; {code} was expected")


def service_principals_log_in(azure):
    """Valid and invalid logins."""
    token = azure.credential().get_token(f"{azure.arm}/.default")
    assert token.expires_on > time.time(), "a token lives on"
    log_in_fails(azure.credential(client_secret="wrong"), azure, 7000215)
    log_in_fails(azure.credential(client_id=str(uuid.uuid4())), azure, 700016)
    # For an unknown tenant the SDK fails in discovery, before it requests a token.
    nowhere = str(uuid.uuid4())
    log_in_fails(azure.credential(tenant=nowhere), azure, "Unable to get authority configuration")
    answer = azure.http("POST", f"/{nowhere}/oauth2/v2.0/token", None, headers={"Authorization": None})
    equal((answer.status_code, answer.json()["error_codes"]), (400, [90002]), "the token endpoint of an unknown tenant")
    try:
        azure.credential().get_token("https://nowhere.example/.default")
        raise AssertionError("there is a token for nowhere")
    except ClientAuthenticationError as error:
        contains(str(error), "AADSTS500011")
    with open(os.environ["KILN_TOKEN_FILE"], "w", encoding="utf-8") as file:
        file.write("service-account-token")
    workload = lambda: WorkloadIdentityCredential(
        tenant_id=azure.tenant, client_id=azure.client_id, token_file_path=os.environ["KILN_TOKEN_FILE"],
        authority=azure.authority, disable_instance_discovery=True)
    equal(azure.client(workload()).virtual_machine_scale_sets.get(azure.group, POOL).name, POOL, "a workload's pool")
    with open(os.environ["KILN_TOKEN_FILE"], "w", encoding="utf-8") as file:
        file.write("another-token")
    log_in_fails(workload(), azure, 70021)


def machines_log_in(azure):
    """The managed identity of a VM, through the metadata service."""
    machine = azure.instance(0)["properties"]["osProfile"]["computerName"]
    os.environ["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = f"{azure.imds}/vm/{machine}"
    client = azure.client(ManagedIdentityCredential())
    equal(client.virtual_machine_scale_sets.get(azure.group, POOL).name, POOL, "what the machine reads")
    with refused("AuthorizationFailed", status=403) as caught:
        client.virtual_machine_scale_sets.begin_delete(azure.group, POOL)
    contains(str(caught[0]), azure.facts["identity"])
    known = ManagedIdentityCredential(client_id=azure.facts["identity"])
    equal(azure.client(known).virtual_machine_scale_sets.get(azure.group, POOL).name, POOL, "an identity by its client id")
    for credential in (ManagedIdentityCredential(client_id=str(uuid.uuid4())),):
        try:
            credential.get_token(f"{azure.arm}/.default")
            raise AssertionError("an identity that is not there has a token")
        except (ClientAuthenticationError, CredentialUnavailableError) as error:
            contains(str(error).lower(), "identity")


def bad_tokens_have_different_errors(azure):
    """Missing and malformed tokens, and tokens of another key, audience or tenant."""
    path = azure.pool_id()
    missing = azure.http("GET", path, headers={"Authorization": None})
    refused_raw(missing, 401, "AuthenticationFailed")
    contains(missing.headers["WWW-Authenticate"], f'authorization_uri="{azure.authority}/{azure.tenant}"')
    refused_raw(azure.http("GET", path, headers={"Authorization": "Basic abc"}), 401, "AuthenticationFailedInvalidHeader")
    refused_raw(azure.http("GET", path, token="junk"), 401, "InvalidAuthenticationToken")
    head, claims, signature = azure.token().split(".")
    refused_raw(azure.http("GET", path, token=".".join((head, claims[:-4] + "AAAA", signature))), 401, "InvalidAuthenticationToken")
    other = azure.credential().get_token("https://vault.azure.net/.default").token
    refused_raw(azure.http("GET", path, token=other), 401, "InvalidAuthenticationTokenAudience")
    with refused("InvalidAuthenticationTokenTenant", ClientAuthenticationError, 401):
        azure.client(subscription=azure.facts["foreign"]).virtual_machine_scale_sets.get(azure.group, POOL)
    with refused("SubscriptionNotFound", ResourceNotFoundError, 404):
        azure.client(subscription=str(uuid.uuid4())).virtual_machine_scale_sets.get(azure.group, POOL)


def tokens_expire(azure):
    """A token with a lifetime of two seconds expires, and a new one is valid again."""
    token = azure.token()
    equal(azure.http("GET", azure.pool_id(), token=token).status_code, 200, "a fresh token")
    for _ in range(300):
        answer = azure.http("GET", azure.pool_id(), token=token)
        if answer.status_code != 200:
            break
        time.sleep(0.1)
    error = refused_raw(answer, 401, "ExpiredAuthenticationToken")
    contains(error["message"], "is earlier than current UTC time")
    contains(answer.headers["WWW-Authenticate"], 'error="invalid_token"')
    equal(azure.http("GET", azure.pool_id(), token=azure.credential().get_token(f"{azure.arm}/.default").token).status_code, 200, "a new token")


def each_action_can_be_denied(azure):
    """One client per action of the role. Each has every permission except that one."""
    gallery, definition, snapshot = azure.image_setup()
    azure.version(gallery, definition, "1.0.0", snapshot)
    group = azure.group
    disk = azure.os_disk(0)
    image = {"location": azure.location, "properties": {"osType": "Linux", "osState": "Generalized",
                                                        "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}}
    copy = {"location": azure.location, "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": disk}}}
    protect = {"location": azure.location, "properties": {"protectionPolicy": {"protectFromScaleIn": True}}}
    one = {"instanceIds": ["0"]}
    sets = "virtual_machine_scale_sets"
    vms = "virtual_machine_scale_set_vms"
    calls = {
        "galleries/read": lambda c: c.galleries.get(group, gallery),
        "galleries/write": lambda c: c.galleries.begin_create_or_update(group, "new", {"location": azure.location}),
        "galleries/images/read": lambda c: c.gallery_images.get(group, gallery, definition),
        "galleries/images/write": lambda c: c.gallery_images.begin_create_or_update(group, gallery, "new", image),
        "galleries/images/versions/read": lambda c: list(c.gallery_image_versions.list_by_gallery_image(group, gallery, definition)),
        "galleries/images/versions/write": lambda c: c.gallery_image_versions.begin_create_or_update(
            group, gallery, definition, "1.0.1", azure.version_body(snapshot)),
        "galleries/images/versions/delete": lambda c: c.gallery_image_versions.begin_delete(group, gallery, definition, "1.0.0"),
        "snapshots/read": lambda c: c.snapshots.get(group, "snapshot_of_0"),
        "snapshots/write": lambda c: c.snapshots.begin_create_or_update(group, "new", copy),
        "snapshots/delete": lambda c: c.snapshots.begin_delete(group, "snapshot_of_0"),
        "disks/read": lambda c: c.disks.get(group, disk.rsplit("/", 1)[1]),
        "virtualMachineScaleSets/read": lambda c: getattr(c, sets).get(group, POOL),
        "virtualMachineScaleSets/write": lambda c: getattr(c, sets).begin_update(group, POOL, {"tags": {}}),
        "virtualMachineScaleSets/delete": lambda c: getattr(c, sets).begin_delete(group, POOL),
        "virtualMachineScaleSets/powerOff/action": lambda c: getattr(c, sets).begin_power_off(group, POOL, one),
        "virtualMachineScaleSets/start/action": lambda c: getattr(c, sets).begin_start(group, POOL, one),
        "virtualMachineScaleSets/virtualMachines/read": lambda c: getattr(c, vms).get(group, POOL, "0"),
        "virtualMachineScaleSets/virtualMachines/write": lambda c: getattr(c, vms).begin_update(group, POOL, "0", protect),
        "virtualMachineScaleSets/virtualMachines/delete": lambda c: getattr(c, vms).begin_delete(group, POOL, "0"),
        "virtualMachineScaleSets/virtualMachines/powerOff/action": lambda c: getattr(c, vms).begin_power_off(group, POOL, "0"),
        "virtualMachineScaleSets/virtualMachines/start/action": lambda c: getattr(c, vms).begin_start(group, POOL, "0"),
        "virtualMachineScaleSets/extensions/read": lambda c: list(c.virtual_machine_scale_set_extensions.list(group, POOL)),
        "virtualMachineScaleSets/extensions/delete": lambda c: c.virtual_machine_scale_set_extensions.begin_delete(group, POOL, "vmssCSE"),
    }
    prefix = "Microsoft.Compute/"
    denied = {action.removeprefix(prefix): client for action, client in azure.facts["denied"].items() if action.startswith(prefix)}
    # Operations that start, but whose status cannot be read.
    unseen = {
        "locations/operations/read": lambda c: getattr(c, sets).begin_update(group, POOL, {"tags": {"unseen": "yes"}}),
        "locations/diskOperations/read": lambda c: c.snapshots.begin_create_or_update(group, "unseen", copy),
        "locations/capsOperations/read": lambda c: c.galleries.begin_create_or_update(group, "unseen", {"location": azure.location}),
    }
    # Tested in `links_can_be_denied`, like the actions of other providers.
    elsewhere = {"disks/beginGetAccess/action"}
    equal(set(denied) - set(calls) - set(unseen), elsewhere, "actions of the role that no call tests")
    for action, call in calls.items():
        client = azure.client(azure.credential(client_id=denied[action], client_secret="s"))
        with refused("AuthorizationFailed", status=403) as caught:
            call(client)
        contains(str(caught[0]).lower(), f"'microsoft.compute/{action}'".lower())
        contains(str(caught[0]), denied[action])
    for action, begin in unseen.items():
        poller = begin(azure.client(azure.credential(client_id=denied[action], client_secret="s")))
        with refused("AuthorizationFailed", status=403) as caught:
            poller.result()
        contains(str(caught[0]).lower(), f"'microsoft.compute/{action}'".lower())
    equal((azure.pool()["tags"]["unseen"], azure.compute.snapshots.get(group, "unseen").name, azure.compute.galleries.get(group, "unseen").name),
          ("yes", "unseen", "unseen"), "the operations end anyway")
    # The rejected requests had no effect.
    equal(sorted(one.name for one in azure.compute.galleries.list()), sorted([gallery, "unseen"]), "galleries")
    equal(azure.power(0), "PowerState/running", "power")


def links_can_be_denied(azure):
    """A write that refers to another resource needs a permission on that resource too."""
    pool = azure.pool()
    group, network = azure.group, "Microsoft.Network"
    profile = pool["properties"]["virtualMachineProfile"]
    identity = azure.id("Microsoft.ManagedIdentity/userAssignedIdentities/nodes")
    balancer = azure.id("Microsoft.Network/loadBalancers/lb/backendAddressPools/nodes")
    configuration = profile["networkProfile"]["networkInterfaceConfigurations"][0]
    configuration["properties"]["ipConfigurations"][0]["properties"]["loadBalancerBackendAddressPools"] = [{"id": balancer}]
    body = {"location": azure.location, "sku": {"name": pool["sku"]["name"], "capacity": 0},
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {identity: {}}},
            "properties": {"upgradePolicy": {"mode": "Manual"}, "virtualMachineProfile": {
                "osProfile": profile["osProfile"], "storageProfile": profile["storageProfile"], "networkProfile": profile["networkProfile"]}}}
    scopes = {
        f"{network}/virtualNetworks/subnets/join/action": azure.id(f"{network}/virtualNetworks/k8s-vnet/subnets/k8s-subnet"),
        f"{network}/networkSecurityGroups/join/action": azure.id(f"{network}/networkSecurityGroups/k8s-nsg"),
        f"{network}/loadBalancers/backendAddressPools/join/action": balancer,
        "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action": identity,
    }
    denied = azure.facts["denied"]
    equal({action for action in denied if not action.startswith("Microsoft.Compute/")}, set(scopes), "linked actions of the role")
    for action, scope in scopes.items():
        client = azure.client(azure.credential(client_id=denied[action], client_secret="s"))
        with refused("LinkedAuthorizationFailed", status=403) as caught:
            client.virtual_machine_scale_sets.begin_create_or_update(group, "canary", body)
        contains(str(caught[0]), f"'{action}' on the linked scope(s) '{scope}'")
    source = azure.os_disk(0)
    copy = {"location": azure.location, "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": source}}}
    for action in ("Microsoft.Compute/disks/beginGetAccess/action", "Microsoft.Compute/disks/read"):
        client = azure.client(azure.credential(client_id=denied[action], client_secret="s"))
        with refused("LinkedAuthorizationFailed", status=403) as caught:
            client.snapshots.begin_create_or_update(group, "copy", copy)
        contains(str(caught[0]), action)
    gallery, definition, snapshot = azure.image_setup()
    client = azure.client(azure.credential(client_id=denied["Microsoft.Compute/snapshots/read"], client_secret="s"))
    with refused("LinkedAuthorizationFailed", status=403):
        client.gallery_image_versions.begin_create_or_update(group, gallery, definition, "1.0.0", azure.version_body(snapshot))
    equal(azure.compute.virtual_machine_scale_sets.begin_create_or_update(group, "canary", body).result().name, "canary", "with all rights")
    path = azure.id(f"{network}/networkInterfaces/nic")
    nic = {"location": azure.location, "properties": {"ipConfigurations": [{"name": "i", "properties": {
        "subnet": {"id": scopes[f"{network}/virtualNetworks/subnets/join/action"]}}}]}}
    token = azure.credential(client_id=denied[f"{network}/virtualNetworks/subnets/join/action"], client_secret="s")
    refused_raw(azure.http("PUT", path, NETWORK, nic, token=token.get_token(f"{azure.arm}/.default").token), 403, "LinkedAuthorizationFailed")


def permissions_can_be_listed(azure):
    """The request of `check-access`: the caller's permissions at a scope."""
    token = azure.credential(client_id=azure.facts["denied"]["Microsoft.Compute/disks/read"], client_secret="s").get_token(f"{azure.arm}/.default")
    path = f"{azure.scope()}/providers/Microsoft.Authorization/permissions"
    (permission,) = azure.http("GET", path, "2022-04-01", token=token.token).json()["value"]
    equal((permission["actions"], permission["notActions"]), (["*"], ["Microsoft.Compute/disks/read"]), "permissions")
