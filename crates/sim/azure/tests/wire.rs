//! The wire server as agents use it.

#[expect(dead_code, reason = "each test binary uses a part")]
mod edges;

use edges::{Got, NODE, request, sim};
use kiln_sim_azure::Sim;
use serde_json::Value;

const VERSION: (&str, &str) = ("x-ms-version", "2012-11-30");

fn ask(sim: &Sim, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let path = format!("/vm/{NODE}{path}");
    let headers: Vec<_> = [("host", "127.0.0.1:80")].iter().chain(headers).copied().collect();
    Got::from_response(sim.wire(None, &request(method, &path, &headers, body)).answer().expect("an answer"))
}

fn health(sim: &Sim) -> Value {
    let path = format!("/vm/{NODE}/kiln/health");
    Got::from_response(sim.imds(None, &request("GET", &path, &[], "")).answer().expect("an answer")).body
}

/// The text of the first element with this name.
fn element(xml: &str, name: &str) -> String {
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let found = document.descendants().find(|node| node.tag_name().name() == name);
    found.and_then(|node| node.text()).unwrap_or_else(|| panic!("no {name} in {xml}")).to_owned()
}

struct Goal {
    container: String,
    instance: String,
    incarnation: String,
}

fn goal(sim: &Sim) -> Goal {
    let got = ask(sim, "GET", "/machine/?comp=goalstate", &[VERSION], "");
    assert_eq!(got.status, 200, "{}", got.text);
    Goal {
        container: element(&got.text, "ContainerId"),
        instance: element(&got.text, "InstanceId"),
        incarnation: element(&got.text, "Incarnation"),
    }
}

fn report(goal: &Goal, health: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Health xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
         <GoalStateIncarnation>{}</GoalStateIncarnation><Container><ContainerId>{}</ContainerId><RoleInstanceList><Role>\
         <InstanceId>{}</InstanceId><Health>{health}</Health></Role></RoleInstanceList></Container></Health>",
        goal.incarnation, goal.container, goal.instance
    )
}

fn send(sim: &Sim, body: &str) -> Got {
    ask(sim, "POST", "/machine/?comp=health", &[VERSION, ("x-ms-agent-name", "com.coreos.afterburn")], body)
}

#[test]
fn protocol_versions_are_listed_without_a_version_header() {
    let got = ask(&sim(), "GET", "/?comp=versions", &[], "");
    assert_eq!((got.status, got.header("content-type")), (200, "text/xml; charset=utf-8"));
    let document = roxmltree::Document::parse(&got.text).expect("XML");
    assert!(document.descendants().any(|node| node.has_tag_name("Version") && node.text() == Some("2012-11-30")));
}

#[test]
fn goal_state_has_container_instance_and_shared_config_url() {
    let sim = sim();
    let got = ask(&sim, "GET", "/machine/?comp=goalstate", &[VERSION], "");
    let url = element(&got.text, "SharedConfig");
    let path = url.strip_prefix(&format!("http://127.0.0.1:80/vm/{NODE}")).unwrap_or_else(|| panic!("{url}"));
    let shared = ask(&sim, "GET", path, &[VERSION], "");
    assert_eq!(shared.status, 200, "{}", shared.text);
    let document = roxmltree::Document::parse(&shared.text).expect("XML");
    let instance = document.descendants().find(|node| node.has_tag_name("Instance")).expect("an instance");
    assert_eq!(instance.attribute("id"), Some(goal(&sim).instance.as_str()));
    assert_eq!(instance.attribute("address"), Some("10.240.0.1"));
    assert_eq!(ask(&sim, "GET", "/machine/other/other?comp=config&type=sharedConfig", &[VERSION], "").status, 410);
    let peer = Some("10.240.0.2".parse().expect("an address"));
    let other =
        sim.wire(peer, &request("GET", "/machine/?comp=goalstate", &[VERSION], "")).answer().expect("an answer");
    assert_ne!(
        element(&Got::from_response(other).text, "InstanceId"),
        goal(&sim).instance,
        "the VM is identified by its address"
    );
}

#[test]
fn version_header_is_required_and_checked() {
    let sim = sim();
    assert_eq!(ask(&sim, "GET", "/machine/?comp=goalstate", &[], "").status, 400);
    assert_eq!(ask(&sim, "GET", "/machine/?comp=goalstate", &[("x-ms-version", "2099-01-01")], "").status, 400);
    assert_eq!(ask(&sim, "POST", "/machine/?comp=goalstate", &[VERSION], "").status, 405);
    assert_eq!(ask(&sim, "GET", "/machine/?comp=other", &[VERSION], "").status, 404);
}

#[test]
fn health_report_in_xml_is_stored() {
    let sim = sim();
    assert_eq!(health(&sim), Value::Null);
    let goal = goal(&sim);
    assert_eq!(send(&sim, &report(&goal, "<State>Ready</State>")).status, 200);
    let seen = health(&sim);
    assert_eq!(
        (&seen["state"], &seen["agent"], &seen["source"]),
        (&"Ready".into(), &"com.coreos.afterburn".into(), &"machine".into())
    );
    let failed = "<State>NotReady</State><Details><SubStatus>ProvisioningFailed</SubStatus><Description>no &lt;disk&gt;</Description></Details>";
    assert_eq!(send(&sim, &report(&goal, failed)).status, 200);
    let seen = health(&sim);
    assert_eq!(
        (&seen["state"], &seen["subStatus"], &seen["description"]),
        (&"NotReady".into(), &"ProvisioningFailed".into(), &"no <disk>".into())
    );
}

#[test]
fn malformed_or_foreign_health_report_is_rejected() {
    let sim = sim();
    let goal = goal(&sim);
    let good = report(&goal, "<State>Ready</State>");
    for bad in [
        "",
        "Ready",
        &good.replace("</Health></Role>", "</Role>"),
        &good.replace("<State>Ready</State>", ""),
        &good.replace("Ready", "Fine"),
        &good.replace("<GoalStateIncarnation>", "<GoalStateIncarnation>x"),
        "<Other/>",
    ] {
        assert_eq!(send(&sim, bad).status, 400, "{bad}");
    }
    assert_eq!(send(&sim, &good.replace(&goal.container, "another")).status, 410);
    assert_eq!(ask(&sim, "POST", "/machine/?comp=health", &[], &good).status, 400, "no version");
    assert_eq!(health(&sim), Value::Null, "rejected reports are not stored");
}

#[test]
fn provisioning_report_in_json_is_stored() {
    let sim = sim();
    let headers = [
        ("content-type", "application/json"),
        ("x-ms-guest-agent-name", "azure-init"),
        ("user-agent", "azure-init v1"),
    ];
    let send = |body: &str| ask(&sim, "POST", "/provisioning/health", &headers, body).status;
    assert_eq!(
        send(r#"{"state": "NotReady", "details": {"subStatus": "Provisioning", "description": "started"}}"#),
        200
    );
    assert_eq!(health(&sim)["description"], "started");
    assert_eq!(send(r#"{"state": "Ready"}"#), 200);
    let seen = health(&sim);
    assert_eq!(
        (&seen["state"], &seen["agent"], &seen["source"]),
        (&"Ready".into(), &"azure-init".into(), &"provisioning".into())
    );
    for bad in [
        "",
        "Ready",
        r#"{"state": "Fine"}"#,
        r#"{"state": "NotReady"}"#,
        r#"{"state": "NotReady", "details": {"subStatus": "Bored"}}"#,
        "{}",
    ] {
        assert_eq!(send(bad), 400, "{bad}");
    }
    assert_eq!(
        ask(&sim, "POST", "/provisioning/health", &[("content-type", "text/xml")], r#"{"state": "Ready"}"#).status,
        400
    );
    assert_eq!(ask(&sim, "GET", "/provisioning/health", &headers, "").status, 405);
    assert_eq!(health(&sim)["state"], "Ready", "rejected reports are not stored");
}
