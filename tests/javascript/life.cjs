// The life cycle of a pool and its image with the Azure SDK for JavaScript, from the first list to an empty group.
// The environment variable KILN_SIM has the ready line of `kiln sim serve`.

const assert = require("node:assert/strict");
const { ComputeManagementClient } = require("@azure/arm-compute");
const { ClientSecretCredential } = require("@azure/identity");

const POOL = "k8s-agentpool1-26100436-vmss";
const DONOR = "11";
const GALLERY = "SIG_kubernetes";
const DEFINITION = "kamino-pool-prototype";
const VERSION = "2026.11.14";

// Operations end at once, so the pollers need not wait for their usual two seconds.
const soon = { updateIntervalInMs: 20 };

const ready = JSON.parse(process.env.KILN_SIM);
const group = ready.resourceGroup;
const location = ready.location;
const credential = new ClientSecretCredential(ready.tenantId, ready.clientId, ready.clientSecret, {
  authorityHost: ready.authority,
  disableInstanceDiscovery: true,
});
const compute = new ComputeManagementClient(credential, ready.subscriptionId, {
  endpoint: ready.arm,
  credentials: { scopes: [`${ready.arm}/.default`] },
});

// The API versions of all requests, by the resource type in their path.
const versions = new Map();
compute.pipeline.addPolicy({
  name: "recordVersions",
  sendRequest(request, next) {
    const url = new URL(request.url);
    const type = url.pathname.split("/providers/Microsoft.Compute/")[1]?.split("/")[0];
    versions.set(type, url.searchParams.get("api-version"));
    return next(request);
  },
});

async function all(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

async function refused(code, status, call) {
  await assert.rejects(async () => call(), (error) => {
    assert.deepEqual([error.code, error.statusCode], [code, status], String(error));
    return true;
  });
}

async function power(instance) {
  const view = await compute.virtualMachineScaleSetVMs.getInstanceView(group, POOL, instance);
  return view.statuses.map((status) => status.code).find((code) => code.startsWith("PowerState/"));
}

async function wholeLife() {
  const sets = compute.virtualMachineScaleSets;
  const vms = compute.virtualMachineScaleSetVMs;

  // The initial pool. Its computer names have upper-case digits of base 36.
  assert.deepEqual((await all(sets.list(group))).map((set) => set.name), [POOL]);
  const instances = await all(vms.list(group, POOL));
  assert.equal(instances.length, 50);
  const names = [9, 10, 11, 35, 36].map((number) => instances[number].osProfile.computerName.slice(POOL.length));
  assert.deepEqual(names, ["000009", "00000A", "00000B", "00000Z", "000010"]);
  const donor = instances[DONOR];
  assert.deepEqual([donor.instanceId, donor.name], [DONOR, `${POOL}_11`]);

  // The donor is protected, stopped, snapshotted and started again.
  const protectedDonor = await vms.update(group, POOL, DONOR, {
    location,
    protectionPolicy: { protectFromScaleIn: true, protectFromScaleSetActions: true },
  }, soon);
  assert.equal(protectedDonor.protectionPolicy.protectFromScaleIn, true);
  await sets.powerOff(group, POOL, { vmInstanceIDs: { instanceIds: [DONOR] }, ...soon });
  assert.equal(await power(DONOR), "PowerState/stopped");
  const snapshot = await compute.snapshots.createOrUpdate(group, "snapshot_pool", {
    location,
    creationData: { createOption: "Copy", sourceResourceId: donor.storageProfile.osDisk.managedDisk.id },
  }, soon);
  assert.equal(snapshot.provisioningState, "Succeeded");
  await vms.start(group, POOL, DONOR, soon);
  assert.equal(await power(DONOR), "PowerState/running");
  await vms.update(group, POOL, DONOR, {
    location,
    protectionPolicy: { protectFromScaleIn: false, protectFromScaleSetActions: false },
  }, soon);

  // An image version, first excluded from latest, then included.
  await compute.galleries.createOrUpdate(group, GALLERY, { location }, soon);
  const definition = await compute.galleryImages.createOrUpdate(group, GALLERY, DEFINITION, {
    location,
    osType: "Linux",
    osState: "Generalized",
    hyperVGeneration: "V1",
    identifier: { publisher: "kiln", offer: GALLERY, sku: DEFINITION },
  }, soon);
  const version = await compute.galleryImageVersions.createOrUpdate(group, GALLERY, DEFINITION, VERSION, {
    location,
    publishingProfile: { replicaCount: 1, excludeFromLatest: true, targetRegions: [{ name: location }] },
    storageProfile: { osDiskImage: { source: { id: snapshot.id } } },
  }, soon);
  assert.equal(version.provisioningState, "Succeeded");
  const model = { virtualMachineProfile: { storageProfile: { imageReference: { id: definition.id } } } };
  await refused("GalleryImageNotFound", 404, () => sets.update(group, POOL, model, soon));
  await compute.galleryImageVersions.update(group, GALLERY, DEFINITION, VERSION, {
    publishingProfile: { excludeFromLatest: false },
  }, soon);

  // New instances are created from it.
  await sets.update(group, POOL, model, soon);
  await sets.update(group, POOL, { sku: { capacity: 51 } }, soon);
  const clone = await vms.get(group, POOL, "50");
  assert.equal(clone.storageProfile.imageReference.id, version.id);
  assert.equal(clone.osProfile.computerName, `${POOL}00001E`);
  assert.equal(await power("50"), "PowerState/running");

  // A conditional write with an old ETag fails.
  const old = (await sets.get(group, POOL)).etag;
  await sets.update(group, POOL, { tags: { run: "7" } }, { ifMatch: old, ...soon });
  await refused("PreconditionFailed", 412, () => sets.update(group, POOL, { tags: { run: "8" } }, { ifMatch: old, ...soon }));

  // Everything is deleted, children first.
  await vms.delete(group, POOL, "50", soon);
  assert.equal((await sets.get(group, POOL)).sku.capacity, 50);
  await refused("CannotDeleteResource", 409, () => compute.galleries.delete(group, GALLERY, soon));
  await compute.galleryImageVersions.delete(group, GALLERY, DEFINITION, VERSION, soon);
  await compute.galleryImages.delete(group, GALLERY, DEFINITION, soon);
  await compute.galleries.delete(group, GALLERY, soon);
  await compute.snapshots.delete(group, "snapshot_pool", soon);
  await sets.delete(group, POOL, soon);
  await refused("ResourceNotFound", 404, () => sets.get(group, POOL));
  for (const left of [sets.list(group), compute.snapshots.list(), compute.galleries.list(), compute.disks.list()]) {
    assert.deepEqual(await all(left), []);
  }

  // The versions of this SDK, one per type. A newer SDK may send others.
  assert.equal(versions.get("virtualMachineScaleSets"), "2026-03-01");
}

wholeLife().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
