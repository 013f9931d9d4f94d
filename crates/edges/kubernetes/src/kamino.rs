//! Jobs of kamino: kamino and kiln on the same pools would undo each other's changes.

use std::fmt;

use k8s_openapi::api::batch::v1::{CronJob, Job, JobStatus};
use k8s_openapi::api::core::v1::PodSpec;
use kube::Api;
use kube::api::ListParams;

use crate::{Cluster, Error};

/// Part of the name of kamino's image in every mirror.
const IMAGE: &str = "vmss-prototype";

/// The kind of an object that runs kamino.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KaminoJobKind {
    /// Running or pending.
    Job,
    /// Scheduled.
    CronJob,
}

/// An object that runs kamino.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KaminoJob {
    pub kind: KaminoJobKind,
    pub namespace: String,
    pub name: String,
    pub image: String,
}

impl fmt::Display for KaminoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            KaminoJobKind::Job => "Job",
            KaminoJobKind::CronJob => "CronJob",
        };
        write!(f, "{kind} `{}/{}` runs `{}`", self.namespace, self.name, self.image)
    }
}

impl Cluster {
    /// All objects of the cluster that run kamino: `CronJobs` that are not suspended, and Jobs that have not ended.
    pub async fn kamino_jobs(&self) -> Result<Vec<KaminoJob>, Error> {
        let every = ListParams::default();
        let crons: Api<CronJob> = Api::all(self.client.clone());
        let jobs: Api<Job> = Api::all(self.client.clone());
        let if_served = |listed: Result<Vec<KaminoJob>, Error>| match listed {
            // The server does not serve the kind, so there are none.
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            listed => listed,
        };
        let mut kamino_jobs =
            if_served(self.list_all("list CronJobs", &crons, &every, |cron| Ok(from_cron_job(cron))).await)?;
        kamino_jobs.extend(if_served(self.list_all("list Jobs", &jobs, &every, |job| Ok(from_job(job))).await)?);
        kamino_jobs.sort();
        Ok(kamino_jobs)
    }
}

fn from_cron_job(cron: CronJob) -> Option<KaminoJob> {
    let spec = cron.spec?;
    if spec.suspend == Some(true) {
        return None;
    }
    let image = kamino_image(spec.job_template.spec?.template.spec?)?;
    let (namespace, name) = (cron.metadata.namespace?, cron.metadata.name?);
    Some(KaminoJob { kind: KaminoJobKind::CronJob, namespace, name, image })
}

fn from_job(job: Job) -> Option<KaminoJob> {
    if job.status.is_some_and(|status| has_ended(&status)) {
        return None;
    }
    let spec = job.spec?;
    if spec.suspend == Some(true) {
        return None;
    }
    let image = kamino_image(spec.template.spec?)?;
    let (namespace, name) = (job.metadata.namespace?, job.metadata.name?);
    Some(KaminoJob { kind: KaminoJobKind::Job, namespace, name, image })
}

fn has_ended(status: &JobStatus) -> bool {
    let ends = |kind: &str| matches!(kind, "Complete" | "Failed");
    status.conditions.iter().flatten().any(|condition| ends(&condition.type_) && condition.status == "True")
}

fn kamino_image(pod: PodSpec) -> Option<String> {
    let containers = pod.containers.into_iter().chain(pod.init_containers.unwrap_or_default());
    containers.filter_map(|container| container.image).find(|image| image.contains(IMAGE))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(image: &str, status: &Value, suspend: bool) -> Option<KaminoJob> {
        let pod = json!({"containers": [{"name": "c", "image": image}]});
        let job = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"suspend": suspend, "template": {"spec": pod}}, "status": status});
        from_job(serde_json::from_value(job).unwrap())
    }

    fn cron(image: &str, suspend: &Value) -> Option<KaminoJob> {
        let pod = json!({"containers": [{"name": "other", "image": "x"}, {"name": "c", "image": image}]});
        let template = json!({"spec": {"template": {"spec": pod}}});
        let cron = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"schedule": "42 0 * * *", "suspend": suspend, "jobTemplate": template}});
        from_cron_job(serde_json::from_value(cron).unwrap())
    }

    const KAMINO: &str = "ghcr.io/jackfrancis/kamino/vmss-prototype:v0.0.12";

    #[test]
    fn kamino_is_recognized_by_its_image_in_any_registry() {
        let found = job(KAMINO, &json!({}), false).unwrap();
        assert_eq!(found.to_string(), format!("Job `n/j` runs `{KAMINO}`"));
        assert!(job("mirror.internal/tools/vmss-prototype@sha256:0", &json!({"active": 1}), false).is_some());
        assert_eq!(job("registry.internal/kiln:1", &json!({}), false), None);
        assert!(cron(KAMINO, &json!(null)).is_some());
    }

    #[test]
    fn ended_and_suspended_jobs_are_ignored() {
        let ended = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        assert_eq!(job(KAMINO, &ended("Complete", "True"), false), None);
        assert_eq!(job(KAMINO, &ended("Failed", "True"), false), None);
        assert!(job(KAMINO, &ended("Failed", "False"), false).is_some());
        assert_eq!(job(KAMINO, &json!({}), true), None);
        assert_eq!(cron(KAMINO, &json!(true)), None);
    }
}
