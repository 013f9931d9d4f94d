//! API versions of the metadata service, per endpoint.

use super::Refusal;
use crate::arm::call::Query;

/// Instance metadata. The last two are not in the published specification, but `azure-init` and `AgentBaker` use them.
pub(super) const INSTANCE: &[&str] = &[
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-08-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2025-04-07",
];

/// Tokens.
pub(super) const IDENTITY: &[&str] = &[
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-08-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2025-04-07",
];

/// Scheduled events.
pub(super) const EVENTS: &[&str] =
    &["2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01"];

/// Returns the requested version if the endpoint supports it.
pub(super) fn check(query: &Query, known: &'static [&'static str]) -> Result<&'static str, Refusal> {
    let refuse = |message: &str| Refusal { versions: Some(known), ..Refusal::bad(message) };
    match query.get("api-version") {
        None | Some("") => Err(refuse("Bad request. api-version was not specified in the request")),
        Some(asked) => known
            .iter()
            .copied()
            .find(|version| *version == asked)
            .ok_or_else(|| refuse("Bad request. api-version is invalid or not supported")),
    }
}
