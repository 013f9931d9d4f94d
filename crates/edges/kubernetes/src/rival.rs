//! kamino's own jobs: two operators that clone the same pools would undo each other's work.

use std::fmt;

use k8s_openapi::api::batch::v1::{CronJob, Job, JobStatus};
use k8s_openapi::api::core::v1::PodSpec;
use kube::Api;
use kube::api::ListParams;

use crate::{Cluster, Error};

/// What the name of kamino's image holds, wherever it is mirrored to.
const IMAGE: &str = "vmss-prototype";

/// What kind of object runs kamino.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RivalKind {
    /// It runs now, or is about to.
    Job,
    /// It runs at certain times.
    CronJob,
}

/// An object that runs kamino.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rival {
    /// What it is.
    pub kind: RivalKind,
    pub namespace: String,
    pub name: String,
    /// The image that it runs.
    pub image: String,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RivalKind::Job => "Job",
            RivalKind::CronJob => "CronJob",
        };
        write!(f, "{kind} `{}/{}` runs `{}`", self.namespace, self.name, self.image)
    }
}

impl Cluster {
    /// Every object of the cluster that runs kamino: its `CronJobs` that are not suspended, and its Jobs that have not ended.
    pub async fn rivals(&self) -> Result<Vec<Rival>, Error> {
        let every = ListParams::default();
        let crons: Api<CronJob> = Api::all(self.client.clone());
        let jobs: Api<Job> = Api::all(self.client.clone());
        let known = |listed: Result<Vec<Rival>, Error>| match listed {
            // A server that does not know the kind runs none of it.
            Err(error) if error.not_found() => Ok(Vec::new()),
            listed => listed,
        };
        let mut found = known(self.list_all("list CronJobs", &crons, &every, |cron| Ok(of_cron(cron))).await)?;
        found.extend(known(self.list_all("list Jobs", &jobs, &every, |job| Ok(of_job(job))).await)?);
        found.sort();
        Ok(found)
    }
}

fn of_cron(cron: CronJob) -> Option<Rival> {
    let spec = cron.spec?;
    if spec.suspend == Some(true) {
        return None;
    }
    let image = image_of(spec.job_template.spec?.template.spec?)?;
    let (namespace, name) = (cron.metadata.namespace?, cron.metadata.name?);
    Some(Rival { kind: RivalKind::CronJob, namespace, name, image })
}

fn of_job(job: Job) -> Option<Rival> {
    if job.status.is_some_and(|status| has_ended(&status)) {
        return None;
    }
    let spec = job.spec?;
    if spec.suspend == Some(true) {
        return None;
    }
    let image = image_of(spec.template.spec?)?;
    let (namespace, name) = (job.metadata.namespace?, job.metadata.name?);
    Some(Rival { kind: RivalKind::Job, namespace, name, image })
}

fn has_ended(status: &JobStatus) -> bool {
    let ends = |kind: &str| matches!(kind, "Complete" | "Failed");
    status.conditions.iter().flatten().any(|condition| ends(&condition.type_) && condition.status == "True")
}

fn image_of(pod: PodSpec) -> Option<String> {
    let containers = pod.containers.into_iter().chain(pod.init_containers.unwrap_or_default());
    containers.filter_map(|container| container.image).find(|image| image.contains(IMAGE))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(image: &str, status: &Value, suspend: bool) -> Option<Rival> {
        let pod = json!({"containers": [{"name": "c", "image": image}]});
        let job = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"suspend": suspend, "template": {"spec": pod}}, "status": status});
        of_job(serde_json::from_value(job).unwrap())
    }

    fn cron(image: &str, suspend: &Value) -> Option<Rival> {
        let pod = json!({"containers": [{"name": "other", "image": "x"}, {"name": "c", "image": image}]});
        let template = json!({"spec": {"template": {"spec": pod}}});
        let cron = json!({"metadata": {"namespace": "n", "name": "j"}, "spec": {"schedule": "42 0 * * *", "suspend": suspend, "jobTemplate": template}});
        of_cron(serde_json::from_value(cron).unwrap())
    }

    const KAMINO: &str = "ghcr.io/jackfrancis/kamino/vmss-prototype:v0.0.12";

    #[test]
    fn kamino_is_told_by_its_image_wherever_it_is_mirrored_to() {
        let found = job(KAMINO, &json!({}), false).unwrap();
        assert_eq!(found.to_string(), format!("Job `n/j` runs `{KAMINO}`"));
        assert!(job("mirror.internal/tools/vmss-prototype@sha256:0", &json!({"active": 1}), false).is_some());
        assert_eq!(job("registry.internal/kiln:1", &json!({}), false), None);
        assert!(cron(KAMINO, &json!(null)).is_some());
    }

    #[test]
    fn what_has_ended_or_is_suspended_is_no_rival() {
        let ended = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        assert_eq!(job(KAMINO, &ended("Complete", "True"), false), None);
        assert_eq!(job(KAMINO, &ended("Failed", "True"), false), None);
        assert!(job(KAMINO, &ended("Failed", "False"), false).is_some());
        assert_eq!(job(KAMINO, &json!({}), true), None);
        assert_eq!(cron(KAMINO, &json!(true)), None);
    }
}
