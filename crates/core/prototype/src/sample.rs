//! Sample values for tests: the pool of kamino's walkthrough, without any blockers, for a test to change in one respect.

use kiln_types::{
    Architecture, CustomData, DefinitionName, DiskUse, Extension, FirstBootUnit, Generation, ImageDefinition,
    ImageFeatures, ImageSource, ImageVersion, Inspection, Instance, JoinCredential, MarketplaceImage, Node, NodeSystem,
    OperatingSystem, Orchestration, OsDisk, Pool, PowerState, Protection, Provisioning, Readiness, Recipe,
    RecipeRunner, RegionProgress, SecretBytes, SecurityType, Tags, UpgradeMode, VersionNumber, VersionState,
    node_name_of, parse_fstab,
};

use crate::names;
use crate::run::RunOptions;

pub(crate) const REGION: &str = "westus2";
pub(crate) const GROUP: &str = "kubernetes-westus2-17813";

pub(crate) fn number(text: &str) -> VersionNumber {
    text.parse().unwrap()
}

pub(crate) fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) fn pool() -> Pool {
    Pool {
        name: "k8s-agentpool1-26100436-vmss".parse().unwrap(),
        location: REGION.into(),
        zones: Vec::new(),
        size: "Standard_D2_v3".into(),
        capacity: 10,
        revision: None,
        provisioning: Provisioning::Succeeded,
        tags: Tags::new(),
        upgrade_mode: UpgradeMode::Manual,
        automatic_os_upgrade: false,
        automatic_repairs: false,
        orchestration: Orchestration::Uniform,
        operating_system: OperatingSystem::Linux,
        ephemeral_os_disk: false,
        plan: None,
        security_type: SecurityType::Standard,
        nvme: None,
        recipe: Recipe { image: marketplace(), extensions: vec![script()] },
    }
}

/// The default options of a run whose user knows the protected settings of the pool's script.
pub(crate) fn options() -> RunOptions {
    RunOptions { protected_settings_of: [script().name].into(), ..RunOptions::default() }
}

pub(crate) fn marketplace() -> ImageSource {
    ImageSource::Marketplace(MarketplaceImage {
        publisher: "microsoft-aks".into(),
        offer: "aks".into(),
        sku: "aks-engine-ubuntu-1804-202007".into(),
        version: "2020.07.24".into(),
    })
}

pub(crate) fn script() -> Extension {
    Extension {
        name: "vmssCSE".into(),
        publisher: "Microsoft.Azure.Extensions".into(),
        kind: "CustomScript".into(),
        handler_version: None,
        auto_upgrade_minor: true,
        settings: None,
        may_have_hidden_settings: true,
        after: Vec::new(),
        others: None,
    }
}

pub(crate) fn definition_name() -> DefinitionName {
    names::definition(GROUP, &pool().name).unwrap()
}

pub(crate) fn definition() -> ImageDefinition {
    ImageDefinition {
        name: definition_name(),
        location: REGION.into(),
        generation: Generation::V1,
        architecture: Architecture::X64,
        security_type: SecurityType::Standard,
        features: ImageFeatures::default(),
        identity: names::definition_identity(GROUP, &pool().name),
        plan: None,
        tags: Tags::new(),
    }
}

pub(crate) fn disk() -> OsDisk {
    OsDisk {
        id: "/disks/0".into(),
        generation: Generation::V1,
        architecture: Architecture::X64,
        security_type: SecurityType::Standard,
        features: ImageFeatures::default(),
        encryption_set: None,
        encrypted_by_extension: false,
        size_gib: Some(30),
    }
}

/// An instance, with the number in its host name in upper case, as Azure writes it.
pub(crate) fn instance(id: u32, runs: ImageSource) -> Instance {
    let id = id.to_string().parse().unwrap();
    let number = node_name_of(&pool().name, &id).unwrap()[pool().name.as_str().len()..].to_ascii_uppercase();
    Instance {
        node_name: format!("{}{number}", pool().name),
        vm_id: format!("vm-{id}"),
        id,
        power: PowerState::Running,
        agent_ready: true,
        provisioning: Provisioning::Succeeded,
        protection: Protection::NONE,
        runs,
        latest_model: true,
        os_disk: Some("/disks/0".into()),
        revision: None,
        zones: Vec::new(),
        tags: Tags::new(),
    }
}

pub(crate) fn exact(version: &str) -> ImageSource {
    ImageSource::ExactVersion(definition_name(), number(version))
}

pub(crate) fn version(written: &str) -> ImageVersion {
    ImageVersion {
        number: number(written),
        id: format!("/versions/{written}"),
        state: VersionState::Succeeded,
        excluded: false,
        regions: vec![RegionProgress {
            region: "West US 2".into(),
            excluded: false,
            percent: Some(100),
            complete: true,
        }],
        storage: None,
        tags: tags([("kiln-made-by-run", "r1")]),
        created: None,
    }
}

pub(crate) fn excluded(written: &str) -> ImageVersion {
    ImageVersion { excluded: true, ..version(written) }
}

pub(crate) fn inspection() -> Inspection {
    let packages = [("bash", "4.4.18"), ("curl", "7.58.0"), ("linux-image-azure", "5.4.0.1036.38")];
    Inspection {
        host_name: "k8s-agentpool1-26100436-vmss000000".into(),
        vm_id: "vm-0".into(),
        os_release: "Ubuntu 18.04.5 LTS".into(),
        kernel: "5.4.0-1036-azure".into(),
        kubelet_version: "v1.19.6".into(),
        runtime_version: "containerd://1.4.3".into(),
        packages: packages.into_iter().map(|(name, version)| (name.to_owned(), version.to_owned())).collect(),
        disk: DiskUse { size_bytes: 30 << 30, used_bytes: 12 << 30 },
        fstab: parse_fstab("UUID=1 / ext4 defaults,discard 0 1\n"),
        join_credential: JoinCredential::StaticClientCertificate { path: "/etc/kubernetes/certs/client.crt".into() },
        recipe_runners: vec![RecipeRunner::CloudInit],
        custom_data: CustomData::found(SecretBytes::new("#cloud-config\n")),
        node_config_in_custom_data: false,
        literal_host_names: Vec::new(),
        static_addresses: Vec::new(),
        node_ips: Vec::new(),
        installed_kernels: Vec::new(),
        reboot_required: None,
        identity: vec!["machine-id".into()],
        first_boot_unit: Some(FirstBootUnit { recorded_vm_id: "vm-0".into(), version: "1".into() }),
        cached_images: vec!["pause:3.2".into()],
        ancestry: Vec::new(),
        secrets: Vec::new(),
    }
}

pub(crate) fn provider_id(id: u32) -> String {
    let group = format!("azure:///subscriptions/5f0c/resourceGroups/{GROUP}/providers/Microsoft.Compute");
    format!("{group}/virtualMachineScaleSets/{}/virtualMachines/{id}", pool().name)
}

pub(crate) fn node(id: u32) -> Node {
    let name = node_name_of(&pool().name, &id.to_string().parse().unwrap()).unwrap();
    Node {
        provider_id: Some(provider_id(id)),
        labels: tags([("kubernetes.io/role", "agent"), ("kubernetes.azure.com/cluster", GROUP)]),
        annotations: tags([("last-patch", "2026-11-15T03:00:00Z")]),
        readiness: Readiness::Ready,
        ready_since: Some("2026-11-15T04:00:00Z".parse().unwrap()),
        heartbeat: Some("2026-11-15T10:00:00Z".parse().unwrap()),
        system: NodeSystem {
            kernel: "5.4.0-1036-azure".into(),
            kubelet: "v1.19.6".into(),
            os_image: "Ubuntu 18.04.5 LTS".into(),
            runtime: "containerd://1.4.3".into(),
            ..NodeSystem::default()
        },
        ..Node::new(name.parse().unwrap())
    }
}
