//! Errors of the API server, with what helps.

use kiln_kubernetes::Error;

use crate::failure::Failure;

const INSTALL: &str = "install the chart with `operator.enabled=true`; docs/guides/fleet.md has the commands";
const PERMISSION: &str =
    "docs/guides/fleet.md has a role for each task; `kubectl auth can-i --list` shows your permissions";

/// The failure of a command, with a hint for a cluster without the kinds and for a missing permission.
#[expect(clippy::needless_pass_by_value, reason = "used with `map_err`")]
pub(crate) fn failure(error: Error) -> Failure {
    if error.is_kind_missing() {
        let message = "the cluster does not have the kinds of the fleet (`node.kiln.dev/v1alpha1`)";
        return Failure::failed(message).hint(INSTALL);
    }
    let failure = Failure::chain(1, &error);
    if error.is_forbidden() { failure.hint(PERMISSION) } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, reason: &str, message: &str) -> Failure {
        let status = kiln_kubernetes::ApiStatus {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            causes: Vec::new(),
            retry_after: None,
        };
        failure(Error::Api { action: "list rollouts".to_owned(), status })
    }

    #[test]
    fn missing_kind_and_missing_permission_have_a_hint_and_others_do_not() {
        assert_eq!(answer(404, "Failed to parse error data", "404 page not found").hint.as_deref(), Some(INSTALL));
        assert_eq!(answer(403, "Forbidden", "no").hint.as_deref(), Some(PERMISSION));
        let other = answer(409, "Conflict", "words");
        assert_eq!((other.hint, other.message.as_str()), (None, "list rollouts: 409 words"));
    }
}
