//! Launches that are killed after each of their requests, against the embedded Azure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use kiln_azure::Azure;
use kiln_types::{
    Factory, MachineDisk, MachineName, MachineSpec, MachineState, Machines, Priority, Provisioning, Secret,
    SecurityType, Storage, Tags,
};

use crate::embedded::Embedded;
use crate::stage::Stage;

const OWNER: &str = "kiln-owner";

/// Passes this many requests and fails all later ones. To Azure this looks like a killed process.
#[derive(Debug)]
struct Fuse {
    inner: Arc<dyn HttpClient>,
    left: AtomicUsize,
}

#[async_trait]
impl HttpClient for Fuse {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let spent = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
        if spent {
            return Err(azure_core::Error::with_message(ErrorKind::Other, "killed"));
        }
        self.inner.execute_request(request).await
    }
}

fn killed_after(embedded: &Embedded, requests: usize) -> Azure {
    embedded.azure_through(Arc::new(Fuse { inner: embedded.http(), left: AtomicUsize::new(requests) }))
}

fn spec(name: &str, image: &str, owner: &str) -> MachineSpec {
    MachineSpec {
        name: name.parse().unwrap(),
        location: "westus2".into(),
        zone: None,
        size: "Standard_D2s_v3".into(),
        image: image.to_owned(),
        subnet: String::new(),
        security_group: None,
        custom_data: Secret::new("#cloud-config\n"),
        admin_user: "azureuser".into(),
        ssh_public_key: "ssh-ed25519 AAAA".into(),
        priority: Priority::Regular,
        identities: Vec::new(),
        disk: MachineDisk { kind: "Premium_LRS".into(), size_gib: None, encryption_set: None },
        security_type: SecurityType::Standard,
        encryption_at_host: false,
        tags: Tags::from([(OWNER.to_owned(), owner.to_owned())]),
    }
}

/// A simulated Azure with an image, a network and a machine of another owner.
async fn prepared() -> (Stage, MachineSpec) {
    let stage = Stage::new("");
    stage.make_definition().await;
    let snapshot = stage.snapshot().await;
    let publication = stage.publication(&snapshot.id, Storage::ZoneRedundant);
    stage.settle(stage.azure.publish(&publication).await.unwrap()).await;
    let version = stage.azure.versions(&stage.definition()).await.unwrap().remove(0);
    let scope = stage.azure.scope();
    let subnet = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network/virtualNetworks/net/subnets/nodes",
        scope.subscription(),
        scope.resource_group()
    );
    let with_subnet = |name, owner| MachineSpec { subnet: subnet.clone(), ..spec(name, &version.id, owner) };
    stage.azure.create(&with_subnet("theirs", "them")).await.unwrap();
    let ours = with_subnet("ours", "us");
    (stage, ours)
}

async fn names(azure: &Azure, owner: &str) -> Vec<MachineName> {
    azure.list(OWNER, owner).await.unwrap().into_iter().map(|m| m.name).collect()
}

#[tokio::test(start_paused = true)]
async fn machine_is_created_listed_and_deleted_with_all_its_resources() {
    let (stage, ours) = prepared().await;
    let made = stage.azure.create(&ours).await.unwrap();
    let MachineState::Present { provisioning, vm_id } = &made.state else { panic!("{made:?}") };
    assert_eq!(*provisioning, Provisioning::Succeeded);
    assert!(vm_id.is_some() && made.parts.len() == 3, "{made:?}");
    assert_eq!(names(&stage.azure, "us").await, std::slice::from_ref(&ours.name));
    stage.azure.delete(&ours.name).await.unwrap();
    assert_eq!(stage.azure.describe(&ours.name).await.unwrap(), None);
    assert_eq!(names(&stage.azure, "them").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_killed_after_any_request_can_be_completed_or_collected() {
    let (stage, ours) = prepared().await;
    let mut kills = 0;
    for requests in 1.. {
        let outcome = killed_after(&stage.embedded, requests).create(&ours).await;
        let completed = outcome.is_ok();
        // Another process completes the launch; there must be one machine.
        if requests % 2 == 0 {
            let machine = stage.azure.create(&ours).await.unwrap();
            assert!(matches!(machine.state, MachineState::Present { .. }), "{requests}: {machine:?}");
        }
        // Another process deletes everything with the owner's tag.
        for name in names(&stage.azure, "us").await {
            stage.azure.delete(&name).await.unwrap();
        }
        assert_eq!(
            stage.azure.describe(&ours.name).await.unwrap(),
            None,
            "resources are left after {requests} requests"
        );
        assert_eq!(names(&stage.azure, "them").await.len(), 1, "machines of other owners are kept");
        if completed {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "the launch was killed after too few different requests: {kills}");
}
