//! `kilnd check-image`: names what is missing on an image or in the way. Read-only.

use kiln_node_plan::check_image::{Purpose, Report, check};

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::node::Node;

/// `kilnd check-image`. The exit code is 1 if there is a blocker.
pub fn run(node: &Node, output: Output) -> CommandResult {
    let report = report(node);
    let text = match output {
        Output::Text => report.to_text(),
        Output::Json => report.to_json(),
    };
    CommandResult { code: if report.is_usable() { DONE } else { FAILED }, text }
}

/// Checks the root: this machine, or an image in a folder.
pub fn report(node: &Node) -> Report {
    check(&node.root, if node.root.is_host() { Purpose::Node } else { Purpose::Image })
}
