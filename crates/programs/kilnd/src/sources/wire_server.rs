//! The wire server, to which a machine reports whether it is provisioned. Without a report Azure considers provisioning failed after twenty
//! minutes.
//!
//! The protocol is that of waagent, cloud-init and afterburn: the goal state names this machine's container and role instance, and the
//! report must repeat them.

use kiln_types::xml::escape;
use roxmltree::Document;

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::http::{Http, HttpRequest};
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// The version of the protocol that every agent uses.
const VERSION: (&str, &str) = ("x-ms-version", "2012-11-30");
const AGENT: (&str, &str) = ("x-ms-agent-name", concat!("kilnd/", env!("CARGO_PKG_VERSION")));
const XML: (&str, &str) = ("Content-Type", "text/xml; charset=utf-8");
/// The wire server rejects a report with an outdated container or role instance.
const STALE: u16 = 410;
/// The length of a description that Azure shows.
const DESCRIPTION: usize = 512;

/// A report of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health<'a> {
    /// The machine is provisioned.
    Ready,
    /// Provisioning failed, with the reason.
    Failed(&'a str),
}

/// The part of the goal state that a report repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalState {
    pub incarnation: String,
    pub container: String,
    pub instance: String,
}

/// Reports to the wire server. The container changes if the machine moves to another host in between; then the goal state is read again.
pub fn report(
    endpoints: &Endpoints,
    health: &Health<'_>,
    rules: Rules,
    wait: &dyn Wait,
    seed: u64,
) -> Result<(), Error> {
    let http = Http::new(seed);
    let base = endpoints.wire_server.trim_end_matches('/');
    let attempt = || {
        let url = format!("{base}/machine/?comp=goalstate");
        let request = HttpRequest { url: url.clone(), headers: &[VERSION, AGENT], body: None };
        let answer = http.request(&request, rules, wait)?;
        let goal = GoalState::parse(&answer).map_err(|reason| Error::Response { url, reason })?;
        let body = goal.report(health);
        let url = format!("{base}/machine/?comp=health");
        let request = HttpRequest { url, headers: &[VERSION, AGENT, XML], body: Some(body.as_bytes()) };
        http.request(&request, rules, wait).map(drop)
    };
    match attempt() {
        Err(Error::Refused { status: STALE, .. }) => attempt(),
        done => done,
    }
}

impl GoalState {
    /// Parses the goal state.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let document = Document::parse(text.trim_start_matches('\u{feff}')).map_err(|error| error.to_string())?;
        let value = |name: &str| {
            let found = document.descendants().find(|node| node.tag_name().name() == name);
            let text = found.and_then(|node| node.text()).map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| format!("missing element `{name}`"))
        };
        Ok(Self {
            incarnation: value("Incarnation")?,
            container: value("ContainerId")?,
            instance: value("InstanceId")?,
        })
    }

    /// The report for this goal state.
    pub fn report(&self, health: &Health<'_>) -> String {
        let [incarnation, container, instance] =
            [&self.incarnation, &self.container, &self.instance].map(|text| escape(text));
        let state = match health {
            Health::Ready => "<State>Ready</State>".to_owned(),
            Health::Failed(reason) => {
                let description: String = reason.chars().take(DESCRIPTION).collect();
                format!(
                    "<State>NotReady</State><Details><SubStatus>ProvisioningFailed</SubStatus>\
                     <Description>{}</Description></Details>",
                    escape(&description)
                )
            }
        };
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
             <Health xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\">\
             <GoalStateIncarnation>{incarnation}</GoalStateIncarnation>\
             <Container><ContainerId>{container}</ContainerId><RoleInstanceList><Role><InstanceId>{instance}</InstanceId>\
             <Health>{state}</Health></Role></RoleInstanceList></Container></Health>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_state_without_an_element_is_rejected() {
        for text in
            ["", "<GoalState/>", "<GoalState><Incarnation>1</Incarnation><ContainerId>c</ContainerId></GoalState>"]
        {
            assert!(GoalState::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn description_is_escaped_and_limited() {
        let goal = GoalState { incarnation: "1".into(), container: "c&d".into(), instance: "i".into() };
        let long = format!("no <disk> & \"key\"\u{7}{}", "x".repeat(600));
        let report = goal.report(&Health::Failed(&long));
        let document = Document::parse(&report).expect("XML");
        let text = |name| document.descendants().find(|node| node.has_tag_name(name)).and_then(|node| node.text());
        assert_eq!(text("ContainerId"), Some("c&d"));
        let description = text("Description").expect("a description");
        assert!(description.starts_with("no <disk> & \"key\" x") && description.chars().count() == DESCRIPTION);
    }
}
