"""Clients of the embedded Azure that a test has started, and assertions that print the difference.

The environment variable KILN_SIM has the ready line of `kiln sim serve`, and KILN_FACTS further facts about the world file.
"""

import json
import os
import socket
import time
from contextlib import contextmanager

import requests
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient

POOL = "k8s-agentpool1-26100436-vmss"

COMPUTE = "2024-03-01"
GALLERY = "2023-07-03"
DISK = "2023-10-02"
NETWORK = "2024-05-01"
GROUPS = "2022-09-01"
SUBSCRIPTIONS = "2022-12-01"


class Traffic(SansIOHTTPPolicy):
    """Records all exchanges of a client, including retries and polls."""

    def __init__(self):
        self.exchanges = []

    def on_response(self, request, response):
        answer = response.http_response
        try:
            body = answer.read()
        except AttributeError:
            body = answer.body()
        self.exchanges.append(
            Exchange(request.http_request.method, request.http_request.url, dict(request.http_request.headers),
                     request.http_request.content, answer.status_code, answer.headers, body))

    def clear(self):
        self.exchanges.clear()

    def statuses(self, method=None):
        return [one.status for one in self.exchanges if method in (None, one.method)]


class Exchange:
    """A request and its response."""

    def __init__(self, method, url, request_headers, request_body, status, headers, body):
        self.method, self.url, self.status, self.headers = method, url, status, headers
        self.request_headers = {name: value for name, value in request_headers.items() if name != "Authorization"}
        self.request_body, self.body = request_body, body

    def json(self):
        return json.loads(self.body) if self.body else None

    def __repr__(self):
        return f"{self.method} {self.url} -> {self.status}"


class Azure:
    """The embedded Azure that the test has started."""

    def __init__(self):
        ready = json.loads(os.environ["KILN_SIM"])
        self.facts = json.loads(os.environ.get("KILN_FACTS", "{}"))
        self.arm, self.authority, self._imds = ready["arm"], ready["authority"], ready["imds"]
        self.tenant, self.subscription = ready["tenantId"], ready["subscriptionId"]
        self.client_id, self.client_secret = ready["clientId"], ready["clientSecret"]
        self.group, self.location = ready["resourceGroup"], ready["location"]
        self.traffic = Traffic()
        self._token = None
        self._session = requests.Session()
        self.compute = self.client()

    @property
    def imds(self):
        """The metadata service. The test runs in a private network namespace, where no real one can answer."""
        with socket.socket() as ours:
            ours.bind(("169.254.169.254", 0))
        return self._imds

    def credential(self, tenant=None, client_id=None, client_secret=None):
        return ClientSecretCredential(
            tenant or self.tenant, client_id or self.client_id, client_secret or self.client_secret,
            authority=self.authority, disable_instance_discovery=True)

    def client(self, credential=None, subscription=None, traffic=None, **options):
        """A ComputeManagementClient, created as for a private cloud."""
        options.setdefault("polling_interval", 1)
        return ComputeManagementClient(
            credential or self.credential(), subscription or self.subscription, base_url=self.arm,
            credential_scopes=[f"{self.arm}/.default"], per_retry_policies=[traffic or self.traffic], **options)

    def token(self):
        if self._token is None:
            self._token = self.credential().get_token(f"{self.arm}/.default").token
        return self._token

    def http(self, method, path, version=COMPUTE, body=None, headers=None, token=None, query=None):
        """Sends a request that the SDK cannot express."""
        url = path if path.startswith("https://") else self.arm + path
        params = dict(query or {})
        if version is not None and "api-version=" not in url:
            params["api-version"] = version
        headers = {"Authorization": f"Bearer {token or self.token()}", **(headers or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        return self._session.request(method, url, params=params, json=body, headers=headers, timeout=60)

    def scope(self, subscription=None, group=None):
        return f"/subscriptions/{subscription or self.subscription}/resourceGroups/{group or self.group}"

    def id(self, path):
        """The id of a resource in the group, by type and name."""
        return f"{self.scope()}/providers/{path}"

    def pool_id(self, pool=POOL):
        return self.id(f"Microsoft.Compute/virtualMachineScaleSets/{pool}")

    def settled(self, response):
        """Polls the status URL of a raw response until the end and returns the last body."""
        url = response.headers["Azure-AsyncOperation"]
        while True:
            body = self.http("GET", url).json()
            if body["status"] not in ("InProgress", "Running"):
                return body
            time.sleep(0.02)

    # Short names for frequent steps.

    def pool(self, pool=POOL, **options):
        return self.compute.virtual_machine_scale_sets.get(self.group, pool, **options).as_dict()

    def instances(self, pool=POOL, **options):
        return [one.as_dict() for one in self.compute.virtual_machine_scale_set_vms.list(self.group, pool, **options)]

    def instance(self, number, pool=POOL, **options):
        return self.compute.virtual_machine_scale_set_vms.get(self.group, pool, str(number), **options).as_dict()

    def power(self, number, pool=POOL):
        view = self.compute.virtual_machine_scale_set_vms.get_instance_view(self.group, pool, str(number)).as_dict()
        return next(one["code"] for one in view["statuses"] if one["code"].startswith("PowerState/"))

    def patch_pool(self, body, pool=POOL, **options):
        return self.compute.virtual_machine_scale_sets.begin_update(self.group, pool, body, **options).result().as_dict()

    def scale(self, capacity, pool=POOL, **options):
        return self.patch_pool({"sku": {"capacity": capacity}}, pool, **options)

    def os_disk(self, number, pool=POOL):
        return self.instance(number, pool)["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"]

    def snapshot(self, name, disk=None, location=None, **properties):
        source = disk or self.os_disk(0)
        body = {"location": location or self.location,
                "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": source}, **properties}}
        return self.compute.snapshots.begin_create_or_update(self.group, name, body).result().as_dict()

    def gallery(self, name, location=None):
        body = {"location": location or self.location}
        return self.compute.galleries.begin_create_or_update(self.group, name, body).result().as_dict()

    def definition(self, gallery, name, generation="V1", **properties):
        body = {"location": self.location, "properties": {
            "osType": "Linux", "osState": "Generalized", "hyperVGeneration": generation,
            "identifier": {"publisher": "kiln", "offer": gallery, "sku": name}, **properties}}
        return self.compute.gallery_images.begin_create_or_update(self.group, gallery, name, body).result().as_dict()

    def version_body(self, snapshot, excluded=False, regions=None, storage="Standard_LRS", **profile):
        return {"location": self.location, "properties": {
            "publishingProfile": {"replicaCount": 1, "storageAccountType": storage, "excludeFromLatest": excluded,
                                  "targetRegions": regions or [{"name": self.location}], **profile},
            "storageProfile": {"osDiskImage": {"source": {"id": snapshot}}}}}

    def begin_version(self, gallery, definition, name, snapshot, **options):
        return self.compute.gallery_image_versions.begin_create_or_update(
            self.group, gallery, definition, name, self.version_body(snapshot, **options))

    def version(self, gallery, definition, name, snapshot, **options):
        return self.begin_version(gallery, definition, name, snapshot, **options).result().as_dict()

    def image_setup(self, gallery="images", definition="image", generation="V1"):
        """Creates a snapshot of the first instance, a gallery and an image definition. Returns their names and the snapshot's id."""
        snapshot = self.snapshot("snapshot_of_0")
        self.gallery(gallery)
        self.definition(gallery, definition, generation)
        return gallery, definition, snapshot["id"]

    def definition_id(self, gallery, definition):
        return self.id(f"Microsoft.Compute/galleries/{gallery}/images/{definition}")

    def point_pool_at(self, image, pool=POOL):
        return self.patch_pool(
            {"properties": {"virtualMachineProfile": {"storageProfile": {"imageReference": {"id": image}}}}}, pool)

    def new_instance_image(self, pool=POOL):
        """Adds one instance and returns its exact image."""
        before = {one["instanceId"] for one in self.instances(pool)}
        self.scale(len(before) + 1, pool)
        (new,) = [one for one in self.instances(pool) if one["instanceId"] not in before]
        return new["properties"]["storageProfile"]["imageReference"]["id"]


def equal(actual, expected, what=""):
    assert actual == expected, f"{what}: got {actual!r}, expected {expected!r}"


def contains(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


@contextmanager
def refused(code, kind=HttpResponseError, status=None):
    """The block must fail with this error, which is appended to the yielded list."""
    caught = []
    try:
        yield caught
    except HttpResponseError as error:
        found = error.error.code if error.error else None
        assert isinstance(error, kind), f"got {type(error).__name__}, expected {kind.__name__}: {error}"
        assert found == code, f"the code is {found!r}, not {code!r}: {error}"
        assert status is None or error.status_code == status, f"the status is {error.status_code}, not {status}: {error}"
        caught.append(error)
    else:
        raise AssertionError(f"no error was raised, expected {code}")


def refused_raw(response, status, code):
    """A raw response must be this error, in ARM's envelope."""
    assert response.status_code == status, f"the status is {response.status_code}, not {status}: {response.text}"
    error = response.json()["error"]
    assert error["code"] == code, f"the code is {error['code']!r}, not {code!r}: {error}"
    assert error["message"], "the error has no message"
    return error
