//! The operator in its own process, and what it costs: memory and processor time from the kernel, requests from the API server.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use control_plane::{ControlPlane, Identity};
use http::Request;
use kiln_fleet_api::Pool;
use kube::api::ListParams;
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::sleep;

use crate::fleet::client;

/// The user, and the name of the objects that count its requests.
const NAME: &str = "kiln-operator";
/// The API server counts the requests of each flow schema.
const COUNTER: &str = "apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"kiln-operator\"";
/// The kernel's unit of processor time for programs, on all architectures that Linux supports.
const TICKS_PER_SECOND: f64 = 100.0;
const ATTEMPTS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(200);

/// A running operator. Dropping it kills it.
pub(crate) struct Operator {
    child: Child,
    admin: Client,
    log: PathBuf,
}

/// What the operator has used since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) requests: u64,
    pub(crate) peak_bytes: u64,
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Operator {
    /// Starts the program as a user whose requests are counted.
    pub(crate) async fn start(program: &Path, plane: &ControlPlane, admin: &Client) -> Result<Self, Box<dyn Error>> {
        let api = "rbac.authorization.k8s.io";
        plane.apply(&json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": NAME},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": NAME}],
        }))?;
        plane.apply(&json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": NAME},
            "spec": {
                "priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 100,
                "rules": [{
                    "subjects": [{"kind": "User", "user": {"name": NAME}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }],
            },
        }))?;
        let kubeconfig = plane.kubeconfig_for(&Identity::user(NAME))?;
        let own = client(&kubeconfig).await?;
        // Both objects are in force a moment after they are written.
        let mut attempts = 0;
        while requests(admin).await? == 0 {
            attempts += 1;
            if attempts > ATTEMPTS {
                return Err("the API server does not count the requests of the operator".into());
            }
            let _ = Api::<Pool>::all(own.clone()).list(&ListParams::default()).await;
            sleep(PAUSE).await;
        }
        let log = plane.folder().join("operator.log");
        let mut command = Command::new(program);
        command.args(["operator", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(&kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { child: command.spawn()?, admin: admin.clone(), log })
    }

    /// What it has used so far. Fails if it has ended.
    pub(crate) async fn usage(&mut self) -> Result<Usage, Box<dyn Error>> {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("the operator ended with {status}:\n{}", self.log()).into());
        }
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let requests = requests(&self.admin).await?;
        Ok(Usage {
            cpu_seconds: cpu_seconds(&fs::read_to_string(folder.join("stat"))?).ok_or("unreadable stat")?,
            peak_bytes: peak_bytes(&fs::read_to_string(folder.join("status"))?).ok_or("unreadable status")?,
            requests,
        })
    }

    /// Ends it as the kubelet does.
    pub(crate) fn stop(mut self) -> Result<(), Box<dyn Error>> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the operator ended with {status}:\n{}", self.log()).into()) }
    }

    /// The end of the log.
    fn log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// The requests of the operator that the API server has counted.
async fn requests(admin: &Client) -> Result<u64, Box<dyn Error>> {
    let text = admin.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    Ok(counted(&text))
}

fn counted(metrics: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(COUNTER));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_default()
}

/// Processor time in user and kernel mode from `/proc/PID/stat`. The name in parentheses may contain spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: u32 = fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?;
    Some(f64::from(ticks) / TICKS_PER_SECOND)
}

/// The largest resident memory from `/proc/PID/status`.
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_the_kernel_and_the_api_server() {
        let stat = "7 (kiln op) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 3 0 100 200 300";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(peak_bytes("Name:\tkiln\nVmHWM:\t   2048 kB\nVmRSS:\t 1024 kB\n"), Some(2 << 20));
        let other = "apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"global\",priority_level=\"x\"} 9\n";
        assert_eq!(counted(other), 0);
        let own = format!("{other}{COUNTER},priority_level=\"workload-low\"}} 41\n");
        assert_eq!(counted(&own), 41);
    }
}
