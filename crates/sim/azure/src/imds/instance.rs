//! Instance metadata of a VM. All leaves are strings, whatever their type in ARM.

use serde_json::{Map, Value, json};

use crate::arm::kind::ResourceKind;
use crate::world::World;
use crate::world::resource::Resource;
use crate::world::vm::Vm;

/// The API version that introduced a field of `compute`, unless it was the first one.
const SINCE: &[(&str, &str)] = &[
    ("placementGroupId", "2017-08-01"),
    ("resourceGroupName", "2017-08-01"),
    ("subscriptionId", "2017-08-01"),
    ("tags", "2017-08-01"),
    ("vmScaleSetName", "2017-12-01"),
    ("zone", "2017-12-01"),
    ("plan", "2018-04-02"),
    ("publicKeys", "2018-04-02"),
    ("azEnvironment", "2018-10-01"),
    ("provider", "2018-10-01"),
    ("resourceId", "2019-03-11"),
    ("storageProfile", "2019-06-01"),
    ("tagsList", "2019-06-04"),
    ("isHostCompatibilityLayerVm", "2020-06-01"),
    ("securityProfile", "2020-06-01"),
    ("osProfile", "2020-07-15"),
    ("licenseType", "2020-09-01"),
    ("evictionPolicy", "2020-12-01"),
    ("priority", "2020-12-01"),
    ("userData", "2021-01-01"),
    ("extendedLocation", "2021-03-01"),
    ("virtualMachineScaleSet", "2021-03-01"),
    ("platformSubFaultDomain", "2021-10-01"),
    ("host", "2021-11-15"),
    ("hostGroup", "2021-11-15"),
    ("additionalCapabilities", "2023-07-01"),
];

/// The whole metadata at this version.
pub(super) fn tree(world: &World, key: &str, version: &str) -> Value {
    let Some((resource, vm)) = world.resources.get(key).and_then(|resource| Some((resource, resource.vm.as_ref()?)))
    else {
        return json!({});
    };
    let set = (resource.id.kind == ResourceKind::Instance)
        .then(|| resource.id.parent())
        .flatten()
        .and_then(|set| world.resources.get(&set.key()));
    let mut compute = Machine { world, resource, vm, set }.compute();
    for (field, since) in SINCE {
        if version < *since {
            compute.remove(*field);
        }
    }
    json!({"compute": compute, "network": network(world, vm)})
}

/// A VM and its scale set.
struct Machine<'a> {
    world: &'a World,
    resource: &'a Resource,
    vm: &'a Vm,
    set: Option<&'a Resource>,
}

impl Machine<'_> {
    fn compute(&self) -> Map<String, Value> {
        let (resource, vm) = (self.resource, self.vm);
        let image = self.image();
        let zone = resource
            .at("zones.0")
            .or_else(|| resource.at("zones").and_then(|zones| zones.get(0)))
            .and_then(Value::as_str);
        let tags = self.tags();
        let size = resource
            .text("sku.name")
            .or_else(|| resource.text("properties.hardwareProfile.vmSize"))
            .unwrap_or_default();
        let joined: Vec<String> = tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        let compute = json!({
            "additionalCapabilities": {"hibernationEnabled": self.flag("additionalCapabilities.hibernationEnabled")},
            "azEnvironment": "AzurePublicCloud",
            "evictionPolicy": self.text("evictionPolicy"),
            "extendedLocation": {"name": "", "type": ""},
            "host": {"id": ""},
            "hostGroup": {"id": ""},
            "isHostCompatibilityLayerVm": "false",
            "licenseType": self.text("licenseType"),
            "location": resource.location(),
            "name": vm.name,
            "offer": image["offer"],
            "osProfile": {
                "adminUsername": self.text("osProfile.adminUsername"),
                "computerName": vm.computer_name,
                "disablePasswordAuthentication": self.flag("osProfile.linuxConfiguration.disablePasswordAuthentication"),
            },
            "osType": self.os_type(),
            "placementGroupId": self.set.map(|set| set.unique_id.as_str()).unwrap_or_default(),
            "plan": {"name": self.plan("name"), "product": self.plan("product"), "publisher": self.plan("publisher")},
            "platformFaultDomain": "0",
            "platformSubFaultDomain": "",
            "platformUpdateDomain": "0",
            "priority": self.text("priority"),
            "provider": "Microsoft.Compute",
            "publicKeys": self.public_keys(),
            "publisher": image["publisher"],
            "resourceGroupName": resource.id.group,
            "resourceId": resource.id.to_string(),
            "securityProfile": {
                "encryptionAtHost": self.flag("securityProfile.encryptionAtHost"),
                "secureBootEnabled": self.flag("securityProfile.uefiSettings.secureBootEnabled"),
                "securityType": self.text("securityProfile.securityType"),
                "virtualTpmEnabled": self.flag("securityProfile.uefiSettings.vTpmEnabled"),
            },
            "sku": image["sku"],
            "storageProfile": {"dataDisks": [], "imageReference": image, "osDisk": self.os_disk(), "resourceDisk": {"size": "0"}},
            "subscriptionId": resource.id.subscription,
            "tags": joined.join(";"),
            "tagsList": tags.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>(),
            "userData": vm.user_data.as_deref().unwrap_or_default(),
            "version": image["version"],
            "virtualMachineScaleSet": {"id": self.set.map(|set| set.id.to_string()).unwrap_or_default()},
            "vmId": vm.vm_id,
            "vmScaleSetName": self.set.map(|set| set.id.name()).unwrap_or_default(),
            "vmSize": size,
            "zone": zone.unwrap_or_default(),
        });
        match compute {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    /// A property of the VM, or of the model it was created from.
    fn at(&self, path: &str) -> Option<&Value> {
        let own = self.resource.at(&format!("properties.{path}"));
        own.or_else(|| self.set.and_then(|set| set.at(&format!("properties.virtualMachineProfile.{path}"))))
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, path: &str) -> &'static str {
        if self.at(path).and_then(Value::as_bool) == Some(true) { "true" } else { "false" }
    }

    fn plan(&self, field: &str) -> &str {
        self.resource.text(&format!("plan.{field}")).unwrap_or_default()
    }

    fn os_type(&self) -> &str {
        self.at("storageProfile.osDisk.osType").and_then(Value::as_str).unwrap_or("Linux")
    }

    fn tags(&self) -> Vec<(&str, &str)> {
        let tags = self.resource.at("tags").and_then(Value::as_object);
        tags.map(|tags| tags.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect())
            .unwrap_or_default()
    }

    /// The image of the OS disk: by id, or by publisher, offer, sku and version.
    fn image(&self) -> Value {
        let image = self.vm.image.as_deref().unwrap_or_default();
        let community = if image.starts_with("/CommunityGalleries/") { image } else { "" };
        let [id, publisher, offer, sku, version] = if let Some((_, version)) = community.rsplit_once("/Versions/") {
            ["", "", "", "", version]
        } else if image.starts_with('/') {
            let version = image.rsplit_once("/versions/").map(|(_, version)| version).unwrap_or_default();
            [image, "", "", "", version]
        } else {
            let mut parts = image.split(':');
            let [publisher, offer, sku, version] = std::array::from_fn(|_| parts.next().unwrap_or_default());
            ["", publisher, offer, sku, version]
        };
        json!({
            "communityGalleryImageId": community, "exactVersion": version, "id": id, "offer": offer, "publisher": publisher,
            "sharedGalleryImageId": "", "sku": sku, "version": version,
        })
    }

    fn os_disk(&self) -> Value {
        let id = self.text("storageProfile.osDisk.managedDisk.id");
        let disk = self.world.resources.get(&id.to_ascii_lowercase());
        let size = disk
            .and_then(|disk| disk.at("properties.diskSizeGB"))
            .or_else(|| self.at("storageProfile.osDisk.diskSizeGB"));
        json!({
            "caching": self.text("storageProfile.osDisk.caching"),
            "createOption": "FromImage",
            "diffDiskSettings": {"option": self.text("storageProfile.osDisk.diffDiskSettings.option")},
            "diskSizeGB": size.map(ToString::to_string).unwrap_or_default(),
            "encryptionSettings": {"enabled": "false"},
            "image": {"uri": ""},
            "managedDisk": {"id": id, "storageAccountType": disk.and_then(|disk| disk.text("sku.name")).unwrap_or_default()},
            "name": disk.map(|disk| disk.id.name()).unwrap_or_default(),
            "osType": self.os_type(),
            "vhd": {"uri": ""},
            "writeAcceleratorEnabled": self.flag("storageProfile.osDisk.writeAcceleratorEnabled"),
        })
    }

    fn public_keys(&self) -> Value {
        let keys = self.at("osProfile.linuxConfiguration.ssh.publicKeys").and_then(Value::as_array);
        let shown = |key: &Value| json!({"keyData": key["keyData"], "path": key["path"]});
        keys.map_or_else(|| json!([]), |keys| keys.iter().map(shown).collect())
    }
}

fn network(world: &World, vm: &Vm) -> Value {
    let prefix = serde_json::to_value(world.spec.address_prefix).unwrap_or_default();
    let (base, bits) = prefix.as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
    let [_, b, c, d] = vm.address.octets();
    json!({"interface": [{
        "ipv4": {
            "ipAddress": [{"privateIpAddress": vm.address.to_string(), "publicIpAddress": ""}],
            "subnet": [{"address": base, "prefix": bits}],
        },
        "ipv6": {"ipAddress": []},
        // The first half is one of Azure's vendor prefixes, the second follows from the address to be unique.
        "macAddress": format!("000D3A{b:02X}{c:02X}{d:02X}"),
    }]})
}
