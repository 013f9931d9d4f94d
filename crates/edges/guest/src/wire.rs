//! The wire server: where a machine says that it has started. Azure gives up on one that does not.

use crate::endpoints::Endpoints;
use crate::error::GuestError;
use crate::http::{Ask, Http};
use crate::retry::Rules;
use crate::wait::Wait;

/// Says that the machine has started.
pub fn report_ready(endpoints: &Endpoints, rules: Rules, wait: &dyn Wait, chance: u64) -> Result<(), GuestError> {
    let ask = Ask {
        url: format!("{}/provisioning/health", endpoints.wire_server.trim_end_matches('/')),
        headers: &[
            ("Content-Type", "application/json"),
            ("x-ms-guest-agent-name", concat!("kilnd v", env!("CARGO_PKG_VERSION"))),
        ],
        body: Some(br#"{"state":"Ready"}"#),
    };
    Http::new(chance).ask(&ask, rules, wait).map(drop)
}
