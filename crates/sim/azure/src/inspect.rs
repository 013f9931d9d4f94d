//! The result that `kilnd inspect` would have on a simulated VM.

use kiln_types::{CustomData, Inspection, JoinCredential, RecipeRunner, SecretPlace};

use crate::machines::MachineView;

impl MachineView {
    /// Returns the inspection. It contains the bytes of custom data, which its JSON form omits.
    pub fn inspection(&self) -> Inspection {
        let contents = &*self.contents;
        let custom_data = self.custom_data.clone().map_or_else(CustomData::absent, CustomData::found);
        let unknown = || JoinCredential::Unknown { why: "no kubeconfig found".to_owned() };
        Inspection {
            host_name: self.host_name().to_owned(),
            vm_id: self.vm_id.clone(),
            os_release: contents.os_release.clone(),
            kernel: contents.kernel.clone(),
            kubelet_version: contents.kubelet_version.clone(),
            runtime_version: contents.runtime_version.clone(),
            packages: contents.packages.clone(),
            disk: contents.disk,
            fstab: contents.fstab.clone(),
            join_credential: contents.join_credential.clone().unwrap_or_else(unknown),
            recipe_runners: self.recipe_runners(),
            custom_data,
            literal_host_names: contents.literal_host_names.clone(),
            static_addresses: contents.static_addresses.clone(),
            identity: contents.identity.keys().cloned().collect(),
            first_boot_unit: contents.first_boot_unit.clone(),
            cached_images: contents.cached_images.iter().cloned().collect(),
            ancestry: contents.ancestry.clone(),
            secrets: self.secrets(),
        }
    }

    /// The simulated images have cloud-init, which keeps the custom data that it processed.
    fn recipe_runners(&self) -> Vec<RecipeRunner> {
        self.custom_data.iter().map(|_| RecipeRunner::CloudInit).collect()
    }

    fn secrets(&self) -> Vec<SecretPlace> {
        let place = |path: &str, kind: &str| SecretPlace { path: path.to_owned(), kind: kind.to_owned() };
        let mut all = Vec::new();
        match &self.contents.join_credential {
            Some(JoinCredential::StaticClientCertificate { path }) => {
                let key = path.strip_suffix(".crt").map_or_else(|| path.clone(), |stem| format!("{stem}.key"));
                all.push(place(&key, "client key"));
            }
            Some(JoinCredential::BootstrapToken { .. }) => {
                all.push(place("/var/lib/kubelet/bootstrap-kubeconfig", "bootstrap token"));
            }
            Some(JoinCredential::NodeCertificate { path }) => all.push(place(path, "kubeconfig")),
            Some(JoinCredential::ExecPlugin { .. } | JoinCredential::Unknown { .. }) | None => {}
        }
        if self.contents.identity.contains_key("kubelet-pki") {
            all.push(place("/var/lib/kubelet/pki", "kubelet's certificate"));
        }
        if self.custom_data.is_some() {
            all.push(place("/var/lib/cloud/instance/user-data.txt", "custom data"));
        }
        all.extend(self.contents.secrets.iter().cloned());
        all
    }
}
