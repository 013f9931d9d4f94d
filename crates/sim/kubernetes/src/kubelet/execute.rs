//! Carries out the task of a pod.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kiln_sim_azure::MachineView;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::task::{Task, TaskResult};
use super::{KubeletError, Kubelets, failed, typed};

impl Kubelets {
    /// Carries out a task. A rejected task fails the pod; a request that fails is retried.
    pub(super) async fn execute(
        &self,
        task: Task,
        machine: &MachineView,
        name: &str,
        namespace: &str,
    ) -> Result<Result<(), String>, KubeletError> {
        match task {
            Task::Impossible(why) => Ok(Err(why)),
            Task::Install(version) => Ok(match &self.disks {
                Some(disks) => disks.install_first_boot(&machine.vm_id, &version),
                None => Err("the disks of the machines are not available".to_owned()),
            }),
            Task::Write(all) => {
                for one in all {
                    self.write_result(one, namespace).await.map_err(failed(name, "write a result"))?;
                }
                Ok(Ok(()))
            }
        }
    }

    /// Writes a result object, replacing an earlier one.
    async fn write_result(&self, one: TaskResult, namespace: &str) -> Result<(), kube::Error> {
        let metadata = json!({"name": one.name, "namespace": namespace});
        if one.secret {
            let data = json!({one.key: STANDARD.encode(&one.text)});
            let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
            return write(&api, &one.name, json!({"metadata": metadata, "type": "Opaque", "data": data})).await;
        }
        let data = json!({one.key: String::from_utf8_lossy(&one.text)});
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        write(&api, &one.name, json!({"metadata": metadata, "data": data})).await
    }
}

/// Patches an object, or creates it.
async fn write<K>(api: &Api<K>, name: &str, object: Value) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({"data": object["data"]}));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            api.create(&PostParams::default(), &typed(object)?).await.map(drop)
        }
        Err(error) => Err(error),
    }
}
