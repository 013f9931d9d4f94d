// The life cycle of a pool and its image with the Azure SDK for Go, from the first list to an empty group.
// The environment variable KILN_SIM has the ready line of `kiln sim serve`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

const (
	pool       = "k8s-agentpool1-26100436-vmss"
	donor      = "11"
	gallery    = "SIG_kubernetes"
	definition = "kamino-pool-prototype"
	version    = "2026.11.14"
)

var ctx = context.Background()

// check ends the program with the caller's line.
func check(good bool, what string, values ...any) {
	if !good {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %s: %v\n", file, line, what, values)
		os.Exit(1)
	}
}

func equal[T comparable](actual, expected T, what string) {
	check(actual == expected, what, "got", actual, "expected", expected)
}

func must[T any](value T, err error) T {
	check(err == nil, "error", err)
	return value
}

// done waits for an operation.
func done[T any](poller *sdk.Poller[T], err error) T {
	check(err == nil, "request", err)
	result, err := poller.PollUntilDone(ctx, nil)
	check(err == nil, "operation", err)
	return result
}

// refused checks the error of a request.
func refused(err error, code string, status int) {
	var response *azcore.ResponseError
	check(errors.As(err, &response), "no error response, expected "+code, err)
	check(response.ErrorCode == code && response.StatusCode == status, "expected "+code, err)
}

func all[T, P any](pager *sdk.Pager[P], items func(P) []*T) []*T {
	var found []*T
	for pager.More() {
		found = append(found, items(must(pager.NextPage(ctx)))...)
	}
	return found
}

func main() {
	var ready map[string]any
	check(json.Unmarshal([]byte(os.Getenv("KILN_SIM")), &ready) == nil, "KILN_SIM")
	key := func(name string) string { return ready[name].(string) }
	group, location := key("resourceGroup"), to.Ptr(key("location"))
	options := policy.ClientOptions{Cloud: cloud.Configuration{
		ActiveDirectoryAuthorityHost: key("authority"),
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: key("arm"), Audience: key("arm")},
		},
	}}
	credential := must(azidentity.NewClientSecretCredential(key("tenantId"), key("clientId"), key("clientSecret"),
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true}))
	clients := must(armcompute.NewClientFactory(key("subscriptionId"), credential,
		&arm.ClientOptions{ClientOptions: options, DisableRPRegistration: true}))
	sets, vms := clients.NewVirtualMachineScaleSetsClient(), clients.NewVirtualMachineScaleSetVMsClient()
	snapshots, disks := clients.NewSnapshotsClient(), clients.NewDisksClient()
	galleries, images := clients.NewGalleriesClient(), clients.NewGalleryImagesClient()
	versions := clients.NewGalleryImageVersionsClient()
	power := func(instance string) string {
		for _, status := range must(vms.GetInstanceView(ctx, group, pool, instance, nil)).Statuses {
			if strings.HasPrefix(*status.Code, "PowerState/") {
				return *status.Code
			}
		}
		return ""
	}
	listSets := func() []*armcompute.VirtualMachineScaleSet {
		return all(sets.NewListPager(group, nil),
			func(page armcompute.VirtualMachineScaleSetsClientListResponse) []*armcompute.VirtualMachineScaleSet {
				return page.Value
			})
	}

	// The initial pool. Its computer names have upper-case digits of base 36.
	found := listSets()
	equal(len(found), 1, "scale sets")
	equal(*found[0].Name, pool, "scale set")
	instances := all(vms.NewListPager(group, pool, nil),
		func(page armcompute.VirtualMachineScaleSetVMsClientListResponse) []*armcompute.VirtualMachineScaleSetVM {
			return page.Value
		})
	equal(len(instances), 50, "instances")
	for number, suffix := range map[int]string{9: "000009", 10: "00000A", 11: "00000B", 35: "00000Z", 36: "000010"} {
		equal(*instances[number].Properties.OSProfile.ComputerName, pool+suffix, "computer name")
		equal(*instances[number].Name, fmt.Sprintf("%s_%d", pool, number), "instance name")
	}

	// The donor is protected, stopped, snapshotted and started again.
	protect := func(on bool) armcompute.VirtualMachineScaleSetVMsClientUpdateResponse {
		return done(vms.BeginUpdate(ctx, group, pool, donor, armcompute.VirtualMachineScaleSetVM{
			Location: location,
			Properties: &armcompute.VirtualMachineScaleSetVMProperties{
				ProtectionPolicy: &armcompute.VirtualMachineScaleSetVMProtectionPolicy{
					ProtectFromScaleIn: to.Ptr(on), ProtectFromScaleSetActions: to.Ptr(on),
				}},
		}, nil))
	}
	check(*protect(true).Properties.ProtectionPolicy.ProtectFromScaleIn, "protection")
	done(sets.BeginPowerOff(ctx, group, pool, &armcompute.VirtualMachineScaleSetsClientBeginPowerOffOptions{
		VMInstanceIDs: &armcompute.VirtualMachineScaleSetVMInstanceIDs{InstanceIDs: []*string{to.Ptr(donor)}},
	}))
	equal(power(donor), "PowerState/stopped", "power of the donor")
	disk := must(vms.Get(ctx, group, pool, donor, nil)).Properties.StorageProfile.OSDisk.ManagedDisk.ID
	snapshot := done(snapshots.BeginCreateOrUpdate(ctx, group, "snapshot_pool", armcompute.Snapshot{
		Location: location,
		Properties: &armcompute.SnapshotProperties{CreationData: &armcompute.CreationData{
			CreateOption: to.Ptr(armcompute.DiskCreateOptionCopy), SourceResourceID: disk,
		}},
	}, nil))
	equal(*snapshot.Properties.ProvisioningState, "Succeeded", "snapshot")
	done(vms.BeginStart(ctx, group, pool, donor, nil))
	equal(power(donor), "PowerState/running", "power of the donor")
	protect(false)

	// An image version, first excluded from latest, then included.
	done(galleries.BeginCreateOrUpdate(ctx, group, gallery, armcompute.Gallery{Location: location}, nil))
	image := done(images.BeginCreateOrUpdate(ctx, group, gallery, definition, armcompute.GalleryImage{
		Location: location,
		Properties: &armcompute.GalleryImageProperties{
			OSType: to.Ptr(armcompute.OperatingSystemTypesLinux), OSState: to.Ptr(armcompute.OperatingSystemStateTypesGeneralized),
			HyperVGeneration: to.Ptr(armcompute.HyperVGenerationV1),
			Identifier: &armcompute.GalleryImageIdentifier{
				Publisher: to.Ptr("kiln"), Offer: to.Ptr(gallery), SKU: to.Ptr(definition),
			},
		},
	}, nil))
	made := done(versions.BeginCreateOrUpdate(ctx, group, gallery, definition, version, armcompute.GalleryImageVersion{
		Location: location,
		Properties: &armcompute.GalleryImageVersionProperties{
			PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{
				ReplicaCount: to.Ptr[int32](1), ExcludeFromLatest: to.Ptr(true),
				TargetRegions: []*armcompute.TargetRegion{{Name: location}},
			},
			StorageProfile: &armcompute.GalleryImageVersionStorageProfile{OSDiskImage: &armcompute.GalleryOSDiskImage{
				Source: &armcompute.GalleryDiskImageSource{ID: snapshot.ID},
			}},
		},
	}, nil))
	equal(*made.Properties.ProvisioningState, armcompute.GalleryProvisioningStateSucceeded, "version")
	model := armcompute.VirtualMachineScaleSetUpdate{Properties: &armcompute.VirtualMachineScaleSetUpdateProperties{
		VirtualMachineProfile: &armcompute.VirtualMachineScaleSetUpdateVMProfile{
			StorageProfile: &armcompute.VirtualMachineScaleSetUpdateStorageProfile{
				ImageReference: &armcompute.ImageReference{ID: image.ID},
			}},
	}}
	_, err := sets.BeginUpdate(ctx, group, pool, model, nil)
	refused(err, "GalleryImageNotFound", http.StatusNotFound)
	done(versions.BeginUpdate(ctx, group, gallery, definition, version, armcompute.GalleryImageVersionUpdate{
		Properties: &armcompute.GalleryImageVersionProperties{
			PublishingProfile: &armcompute.GalleryImageVersionPublishingProfile{ExcludeFromLatest: to.Ptr(false)},
		},
	}, nil))

	// New instances are created from it.
	done(sets.BeginUpdate(ctx, group, pool, model, nil))
	done(sets.BeginUpdate(ctx, group, pool,
		armcompute.VirtualMachineScaleSetUpdate{SKU: &armcompute.SKU{Capacity: to.Ptr[int64](51)}}, nil))
	clone := must(vms.Get(ctx, group, pool, "50", nil))
	equal(*clone.Properties.StorageProfile.ImageReference.ID, *made.ID, "image of the clone")
	equal(*clone.Properties.OSProfile.ComputerName, pool+"00001E", "computer name of the clone")
	equal(power("50"), "PowerState/running", "power of the clone")

	// A conditional write with an old ETag fails.
	old := must(sets.Get(ctx, group, pool, nil)).Etag
	tag := func(value string) error {
		_, err := sets.BeginUpdate(ctx, group, pool,
			armcompute.VirtualMachineScaleSetUpdate{Tags: map[string]*string{"run": to.Ptr(value)}},
			&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: old})
		return err
	}
	check(tag("7") == nil, "the first write")
	refused(tag("8"), "PreconditionFailed", http.StatusPreconditionFailed)

	// Everything is deleted, children first.
	done(vms.BeginDelete(ctx, group, pool, "50", nil))
	equal(*must(sets.Get(ctx, group, pool, nil)).SKU.Capacity, 50, "capacity")
	_, err = galleries.BeginDelete(ctx, group, gallery, nil)
	refused(err, "CannotDeleteResource", http.StatusConflict)
	done(versions.BeginDelete(ctx, group, gallery, definition, version, nil))
	done(images.BeginDelete(ctx, group, gallery, definition, nil))
	done(galleries.BeginDelete(ctx, group, gallery, nil))
	done(snapshots.BeginDelete(ctx, group, "snapshot_pool", nil))
	done(sets.BeginDelete(ctx, group, pool, nil))
	_, err = sets.Get(ctx, group, pool, nil)
	refused(err, "ResourceNotFound", http.StatusNotFound)
	equal(len(listSets()), 0, "scale sets that are left")
	equal(len(all(snapshots.NewListPager(nil),
		func(page armcompute.SnapshotsClientListResponse) []*armcompute.Snapshot { return page.Value })), 0, "snapshots")
	equal(len(all(galleries.NewListPager(nil),
		func(page armcompute.GalleriesClientListResponse) []*armcompute.Gallery { return page.Value })), 0, "galleries")
	equal(len(all(disks.NewListPager(nil),
		func(page armcompute.DisksClientListResponse) []*armcompute.Disk { return page.Value })), 0, "disks")
}
