//! Provisioning reports of a guest, ready or not ready with a reason, in two protocols.

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use roxmltree::{Document, Node};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Goal, Refusal, stale_goal_state};

const STATES: [&str; 2] = ["Ready", "NotReady"];

/// The XML form that agents post to `/machine/?comp=health`.
pub(super) fn from_xml(body: &Bytes, goal: &Goal) -> Result<Value, Refusal> {
    let text = std::str::from_utf8(body).map_err(|error| Refusal::bad(format!("the report is not UTF-8: {error}")))?;
    let document = Document::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|error| Refusal::bad(format!("the report is not XML: {error}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "Health" {
        return Err(Refusal::bad(format!("the report is a `{}`, expected `Health`", root.tag_name().name())));
    }
    let incarnation = required_text(root, "GoalStateIncarnation")?;
    let incarnation: u64 = incarnation
        .parse()
        .map_err(|_| Refusal::bad(format!("GoalStateIncarnation `{incarnation}` is not a number")))?;
    let container = child(root, "Container")?;
    let role = child(child(container, "RoleInstanceList")?, "Role")?;
    if required_text(container, "ContainerId")? != goal.container || required_text(role, "InstanceId")? != goal.instance
    {
        return Err(stale_goal_state());
    }
    let health = child(role, "Health")?;
    let details = child(health, "Details").ok();
    let detail = |name: &str| details.and_then(|details| required_text(details, name).ok());
    let state = required_text(health, "State")?;
    Ok(json!({
        "source": "machine",
        "state": parse_state(&state)?,
        "subStatus": detail("SubStatus"),
        "description": detail("Description"),
        "incarnation": incarnation,
    }))
}

/// Returns a child by local name, because agents use different namespaces.
fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Result<Node<'a, 'input>, Refusal> {
    let missing = || Refusal::bad(format!("the report has no `{name}` in its `{}`", node.tag_name().name()));
    node.children().find(|child| child.tag_name().name() == name).ok_or_else(missing)
}

fn required_text(node: Node<'_, '_>, name: &str) -> Result<String, Refusal> {
    let text = child(node, name)?.text().unwrap_or_default().trim().to_owned();
    if text.is_empty() { Err(Refusal::bad(format!("`{name}` is empty"))) } else { Ok(text) }
}

fn parse_state(state: &str) -> Result<&'static str, Refusal> {
    STATES
        .into_iter()
        .find(|parse_state| *parse_state == state)
        .ok_or_else(|| Refusal::bad(format!("unknown state `{state}`; expected Ready or NotReady")))
}

#[derive(Deserialize)]
struct Report {
    state: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    sub_status: String,
    #[serde(default)]
    description: Option<String>,
}

/// The JSON form of `/provisioning/health`.
pub(super) fn from_json(request: &Request<Bytes>) -> Result<Value, Refusal> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(Refusal::bad(format!("the content type is `{kind}`, expected application/json")));
    }
    let report: Report =
        serde_json::from_slice(request.body()).map_err(|error| Refusal::bad(format!("invalid report: {error}")))?;
    let state = parse_state(&report.state)?;
    let sub = report.details.as_ref().map(|details| details.sub_status.as_str());
    if let Some(sub) = sub.filter(|sub| !["Provisioning", "ProvisioningFailed"].contains(sub)) {
        return Err(Refusal::bad(format!("unknown subStatus `{sub}`; expected Provisioning or ProvisioningFailed")));
    }
    if state == "NotReady" && sub.is_none() {
        return Err(Refusal::bad("a NotReady report must have details with a subStatus"));
    }
    let description = report.details.as_ref().and_then(|details| details.description.as_deref());
    Ok(json!({"source": "provisioning", "state": state, "subStatus": sub, "description": description}))
}
