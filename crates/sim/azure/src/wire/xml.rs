//! The XML documents of the wire server.

use kiln_types::xml::escape;

use super::Goal;

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

pub(super) fn versions(versions: &[&str]) -> String {
    let list: String = versions.iter().flat_map(|version| ["<Version>", version, "</Version>"]).collect();
    let preferred = versions.first().copied().unwrap_or_default();
    format!(
        "{HEAD}<Versions><Preferred><Version>{preferred}</Version></Preferred><Supported>{list}</Supported></Versions>"
    )
}

pub(super) fn goal_state(goal: &Goal) -> String {
    let Goal { base, incarnation, container, instance, .. } = goal;
    let shared = escape(&format!(
        "{base}/machine/{container}/{instance}?comp=config&type=sharedConfig&incarnation={incarnation}"
    ));
    let instance = escape(instance);
    format!(
        "{HEAD}<GoalState xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:noNamespaceSchemaLocation=\"goalstate10.xsd\">\
         <Version>2012-11-30</Version><Incarnation>{incarnation}</Incarnation>\
         <Machine><ExpectedState>Started</ExpectedState><StopRolesDeadlineHint>300000</StopRolesDeadlineHint>\
         <LBProbePorts><Port>16001</Port></LBProbePorts><ExpectHealthReport>FALSE</ExpectHealthReport></Machine>\
         <Container><ContainerId>{container}</ContainerId><RoleInstanceList><RoleInstance><InstanceId>{instance}</InstanceId>\
         <State>Started</State><Configuration><SharedConfig>{shared}</SharedConfig>\
         <ConfigName>{container}.{incarnation}.xml</ConfigName></Configuration>\
         </RoleInstance></RoleInstanceList></Container></GoalState>"
    )
}

pub(super) fn shared_config(goal: &Goal) -> String {
    let [deployment, role, instance] = [&goal.deployment, &goal.role, &goal.instance].map(|text| escape(text));
    format!(
        "{HEAD}<SharedConfig version=\"1.0.0.0\"><Deployment name=\"{deployment}\" incarnation=\"{}\"/>\
         <Incarnation number=\"{}\" instance=\"{role}\"/><Role name=\"{role}\"/>\
         <Instances><Instance id=\"{instance}\" address=\"{}\"/></Instances></SharedConfig>",
        goal.incarnation, goal.incarnation, goal.address
    )
}

pub(super) fn error(code: &str, message: &str) -> String {
    format!(
        "{HEAD}<Error><Code>{}</Code><Message>{}</Message></Error>",
        escape(&code.replace(' ', "")),
        escape(message)
    )
}
