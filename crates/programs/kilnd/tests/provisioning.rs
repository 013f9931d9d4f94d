//! The report to the platform: who sends it, when, and what it says. The wire server is the embedded Azure's, or one that records requests.

mod support;

#[path = "watched/azure.rs"]
#[expect(dead_code, reason = "these tests do not change user data")]
mod azure;
mod scripted_host;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use azure::azure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kilnd::sources::{GoalState, Health};
use scripted_host::{Answer, Host, Request};
use serde_json::{Value, json};
use support::documents::document;
use support::program::kilnd_on;
use support::world::{folder, image};

const AZURE_TAG: &str = "7783-7084-3265-9085-8269-3286-77\n";
const GOAL_STATE: &str = "<GoalState><Incarnation>3</Incarnation><Container><ContainerId>c1</ContainerId><RoleInstanceList>\
                          <RoleInstance><InstanceId>i1._n</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>";
/// How long a test waits for kilnd.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
const SECRET: &str = "hunter2-of-the-first-user";

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, content).expect("written");
}

/// A machine on Azure whose provisioning media has this custom data.
fn machine(root: &Path, custom_data: &str, preprovisioned: bool) {
    image(root);
    write(root, "dmi/chassis_asset_tag", AZURE_TAG);
    write(root, "cd/ovf-env.xml", &ovf(custom_data, preprovisioned));
}

fn ovf(custom_data: &str, preprovisioned: bool) -> String {
    format!(
        "<Environment><LinuxProvisioningConfigurationSet><HostName>node-7</HostName><UserPassword>{SECRET}</UserPassword>\
         <CustomData>{}</CustomData></LinuxProvisioningConfigurationSet>\
         <PreprovisionedVm>{preprovisioned}</PreprovisionedVm></Environment>",
        STANDARD.encode(custom_data)
    )
}

fn kilnd(root: &Path, wire: &str, imds: &str, args: &[&str]) -> Command {
    let mut command = kilnd_on(root);
    command.args(["--imds", imds, "--wire-server", wire, "--time-scale", "1000"]).args(args);
    command
}

fn boot(root: &Path, wire: &str) -> Output {
    kilnd(root, wire, "http://127.0.0.1:1", &["boot"]).output().expect("kilnd runs")
}

/// A valid document, and one with a version that no image has.
fn documents() -> (String, String) {
    let bad = json!({"kubelet": {"version": "1.33.7", "flags": {"--config": "/x"}}});
    (document(1, &json!({})).to_json(), document(1, &bad).to_json())
}

fn health(number: u32) -> Value {
    serde_json::from_str(&azure().health(number)).expect("JSON")
}

#[test]
fn failed_first_boot_is_reported_with_the_reason() {
    let (_, bad) = documents();
    let folder = folder();
    machine(folder.path(), &bad, false);
    let wire = azure().wire(&azure().instance(1));
    let output = boot(folder.path(), &wire);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = health(1);
    assert_eq!(
        (&report["state"], &report["subStatus"]),
        (&json!("NotReady"), &json!("ProvisioningFailed")),
        "{report}"
    );
    let description = report["description"].as_str().expect("a reason");
    assert!(
        description.starts_with("this machine does not become a node: ") && description.contains("--config"),
        "{report}"
    );
    assert!(report["agent"].as_str().is_some_and(|agent| agent.starts_with("kilnd/")), "{report}");
    assert!(!report.to_string().contains(SECRET), "{report}");
}

/// A change of a machine before its boot.
type Change<'f> = dyn Fn(&Path) + Sync + 'f;

#[test]
fn kilnd_does_not_report_where_another_agent_does_or_outside_azure() {
    let (_, bad) = documents();
    let enable = |root: &Path, unit: &str| {
        write(root, &format!("lib/systemd/system/{unit}"), "[Service]\nExecStart=/bin/true\n");
        let link = root.join(format!("etc/systemd/system/multi-user.target.wants/{unit}"));
        fs::create_dir_all(link.parent().expect("a parent")).expect("folders");
        std::os::unix::fs::symlink(format!("/lib/systemd/system/{unit}"), link).expect("a link");
    };
    let cases: [(&str, &Change<'_>, bool); 5] = [
        ("no agent", &|_| {}, true),
        ("cloud-init", &|root| enable(root, "cloud-init-local.service"), false),
        ("waagent", &|root| enable(root, "walinuxagent.service"), false),
        ("another platform", &|root| write(root, "dmi/chassis_asset_tag", "Default string\n"), false),
        (
            "cloud-init that is disabled",
            &|root| {
                enable(root, "cloud-init-local.service");
                write(root, "etc/cloud/cloud-init.disabled", "");
            },
            true,
        ),
    ];
    testkit::private().inside(|| {
        for (name, change, reports) in cases {
            let folder = folder();
            machine(folder.path(), &bad, false);
            change(folder.path());
            let host = Host::new(wire_server);
            assert_eq!(boot(folder.path(), &host.url).status.code(), Some(1), "{name}");
            let posts = posts(&host);
            assert_eq!(posts.len(), usize::from(reports), "{name}: {posts:?}");
        }
    });
}

/// A wire server that accepts everything.
fn wire_server(request: &Request, _: usize) -> Answer {
    let body = if request.line.contains("goalstate") { GOAL_STATE } else { "" };
    (200, String::new(), body.as_bytes().to_vec())
}

fn posts(host: &Host) -> Vec<Request> {
    host.requests().into_iter().filter(|request| request.line.starts_with("POST ")).collect()
}

#[test]
fn failure_is_reported_once_although_systemd_repeats_the_boot() {
    let (good, bad) = documents();
    testkit::private().inside(|| {
        let folder = folder();
        let root = folder.path();
        machine(root, &bad, false);
        let host = Host::new(wire_server);
        // The clock of this kilnd runs a thousand times faster, so a minute passes between two attempts: only the sentence decides.
        for _ in 0..3 {
            assert_eq!(boot(root, &host.url).status.code(), Some(1));
        }
        let sent = posts(&host);
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0].line, "POST /machine/?comp=health HTTP/1.1");
        for header in ["x-ms-version: 2012-11-30", "content-type: text/xml; charset=utf-8", "x-ms-agent-name: kilnd/"] {
            assert!(sent[0].head.contains(header), "{header}\n{}", sent[0].head);
        }
        // A boot that works reports no failure, and leaves the ready report to `kilnd watch`.
        write(root, "cd/ovf-env.xml", &ovf(&good, false));
        assert_eq!(boot(root, &host.url).status.code(), Some(0));
        assert_eq!(posts(&host).len(), 1);
    });
}

#[test]
fn missing_document_is_not_reported_at_once() {
    testkit::private().inside(|| {
        let folder = folder();
        machine(folder.path(), "", false);
        let host = Host::new(wire_server);
        assert_eq!(boot(folder.path(), &host.url).status.code(), Some(1), "no document");
        assert_eq!(posts(&host).len(), 0, "the metadata service may recover");
    });
}

#[test]
fn preprovisioned_machine_reports_before_and_after_its_assignment() {
    let (good, _) = documents();
    testkit::private().inside(|| {
        let folder = folder();
        let root = folder.path();
        machine(root, "placeholder", true);
        // Azure assigns the machine only after it has reported. The first report is lost.
        let assigned = ovf(&good, false);
        let accepted = std::sync::atomic::AtomicUsize::new(0);
        let host = Host::new(move |request, _| {
            let order = std::sync::atomic::Ordering::SeqCst;
            if request.line.contains("reprovisiondata") {
                return match accepted.load(order) {
                    0 | 1 => (404, String::new(), Vec::new()),
                    _ => (200, String::new(), assigned.clone().into_bytes()),
                };
            }
            if request.line.contains("comp=health") && accepted.fetch_add(1, order) == 0 {
                return (503, String::new(), Vec::new());
            }
            wire_server(request, 0)
        });
        // Without a report the machine would wait for ever.
        _ = testkit::run(kilnd(root, &host.url, &host.url, &["boot"]), PATIENCE).success();
        let sent = posts(&host);
        assert_eq!(sent.len(), 2, "one that was lost, one that was accepted: {sent:?}");
        assert!(sent.iter().all(|report| report.body.contains("<State>Ready</State>")), "{sent:?}");
        // An interrupted wait does not report again.
        assert_eq!(fs::read_to_string(root.join("var/lib/kiln/preprovisioned")).expect("a marker").trim().len(), 36);
        let mut watch = kilnd(root, &host.url, "http://127.0.0.1:1", &["watch"]);
        let mut child = watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("kilnd runs");
        let is_reported = || root.join("run/kiln/reported").is_file();
        for _ in 0..PATIENCE.as_millis() / 10 {
            assert!(child.try_wait().expect("a child").is_none(), "kilnd watch ended");
            if is_reported() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().expect("running");
        child.wait().expect("ended");
        let all = posts(&host);
        assert_eq!((all.len(), is_reported()), (3, true), "{all:?}");
        let last = all.last().expect("a report");
        assert!(last.body.contains("<State>Ready</State>") && last.body.contains("<InstanceId>i1._n</InstanceId>"));
        assert!(!root.join("var/lib/kiln/preprovisioned").exists(), "it would identify the donor of a clone");
    });
}

#[test]
fn stale_goal_state_is_read_again() {
    testkit::private().inside(|| {
        let host = Host::new(|request, count| match (request.line.contains("health"), count) {
            (true, 0..=2) => (410, String::new(), Vec::new()),
            _ => wire_server(request, count),
        });
        let rules = kilnd::sources::Rules::WIRE;
        let clock = scripted_host::VirtualClock::default();
        kilnd::sources::report(&host.endpoints(), &Health::Ready, rules, &clock, 1).expect("accepted");
        let lines: Vec<String> = host.requests().into_iter().map(|request| request.line).collect();
        assert_eq!(lines.iter().filter(|line| line.contains("goalstate")).count(), 2, "{lines:?}");
    });
}

mod recordings {
    use super::*;

    /// The report must repeat what the recorded goal state of a real host contains, and the recorded provisioning media must be understood.
    #[test]
    fn report_repeats_the_recorded_goal_state() {
        let folder = testkit::recordings::golden().join("waagent");
        let text = fs::read_to_string(folder.join("goal_state.xml")).expect("a goal state");
        let goal = GoalState::parse(text.as_bytes()).expect("understood");
        let recorded = roxmltree::Document::parse(&text).expect("XML");
        let value = |document: &roxmltree::Document<'_>, name: &str| {
            let found = document.descendants().find(|node| node.tag_name().name() == name);
            found.and_then(|node| node.text()).map_or_else(|| panic!("no {name}"), str::to_owned)
        };
        for health in [Health::Ready, Health::Failed("no network")] {
            let report = goal.report(&health);
            let report = roxmltree::Document::parse(&report).expect("XML");
            for (ours, theirs) in
                [("GoalStateIncarnation", "Incarnation"), ("ContainerId", "ContainerId"), ("InstanceId", "InstanceId")]
            {
                assert_eq!(value(&report, ours), value(&recorded, theirs));
            }
        }
        for file in ["ovf-env.xml", "ovf-env-2.xml"] {
            let ovf = kilnd::sources::OvfEnv::parse(&fs::read(folder.join(file)).expect(file)).expect(file);
            assert!(!ovf.preprovisioned && ovf.host_name.is_some(), "{file}: {ovf:?}");
        }
    }
}
