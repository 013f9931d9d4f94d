//! The last look at a request before it leaves.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, Headers};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Method, Request};
use kiln_types::{CanaryName, PoolName};

/// Why a request does not leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A scale set as it is read lacks custom data and protected settings; put back, they would be gone.
    #[error("an existing scale set is only patched: a PUT needs `If-None-Match: *`")]
    PutOfScaleSet,
    /// A patch without a revision may undo somebody else's.
    #[error("a scale set is only patched with `If-Match`")]
    BlindPatchOfScaleSet,
    /// Only what was made to be thrown away is.
    #[error("scale set `{0}` is no canary and is never deleted")]
    DeleteOfPool(String),
    /// The settings of an extension that is there cannot be read, so what a PUT would lose is not known.
    #[error("an extension is only put where none is: a PUT needs `If-None-Match: *`")]
    PutOfExtension,
    /// As with a scale set, a blind PUT may undo somebody else's.
    #[error("an instance is only put with `If-Match`")]
    BlindPutOfInstance,
}

/// Refuses what no code here may ever send, whatever happens above.
#[derive(Debug)]
pub struct WireGuard;

#[async_trait]
impl Policy for WireGuard {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        if let Some(refusal) = refuse(request.method(), request.url().path(), request.headers()) {
            return Err(azure_core::Error::new(ErrorKind::Other, refusal));
        }
        next[0].send(ctx, request, &next[1..]).await
    }
}

fn refuse(method: Method, path: &str, headers: &Headers) -> Option<Refusal> {
    let header =
        |name: &'static str| headers.get_optional_str(&HeaderName::from_static(name)).is_some_and(|v| !v.is_empty());
    let creates_only = headers.get_optional_str(&HeaderName::from_static("if-none-match")) == Some("*");
    match (method, target(path)?) {
        (Method::Put, Target::ScaleSet(_)) if !creates_only => Some(Refusal::PutOfScaleSet),
        (Method::Patch, Target::ScaleSet(_)) if !header("if-match") => Some(Refusal::BlindPatchOfScaleSet),
        (Method::Put | Method::Patch, Target::Extension) if !creates_only => Some(Refusal::PutOfExtension),
        (Method::Put, Target::Instance) if !header("if-match") => Some(Refusal::BlindPutOfInstance),
        (Method::Delete, Target::ScaleSet(name)) => {
            let canary = name.parse::<PoolName>().ok().is_some_and(|name| CanaryName::try_from(name).is_ok());
            (!canary).then(|| Refusal::DeleteOfPool(name.to_owned()))
        }
        _ => None,
    }
}

enum Target<'a> {
    ScaleSet(&'a str),
    Instance,
    Extension,
}

fn target(path: &str) -> Option<Target<'_>> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let at = parts.iter().position(|p| p.eq_ignore_ascii_case("virtualMachineScaleSets"))?;
    match &parts[at + 1..] {
        [name] => Some(Target::ScaleSet(name)),
        [_, kind, _] if kind.eq_ignore_ascii_case("virtualMachines") => Some(Target::Instance),
        [_, kind, _] if kind.eq_ignore_ascii_case("extensions") => Some(Target::Extension),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/pool";

    fn with(name: &'static str, value: &'static str) -> Headers {
        let mut headers = Headers::new();
        headers.insert(name, value);
        headers
    }

    #[test]
    fn a_scale_set_is_put_only_where_none_is() {
        assert_eq!(refuse(Method::Put, SET, &Headers::new()), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &with("if-match", "\"1\"")), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &with("if-none-match", "\"1\"")), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &with("if-none-match", "*")), None);
        let shouted = format!("{}/", SET.to_ascii_uppercase());
        assert_eq!(refuse(Method::Put, &shouted, &Headers::new()), Some(Refusal::PutOfScaleSet));
    }

    #[test]
    fn a_patch_says_what_it_saw() {
        assert_eq!(refuse(Method::Patch, SET, &Headers::new()), Some(Refusal::BlindPatchOfScaleSet));
        assert_eq!(refuse(Method::Patch, SET, &with("if-match", "\"1\"")), None);
    }

    #[test]
    fn only_a_canary_is_deleted() {
        assert_eq!(refuse(Method::Delete, SET, &Headers::new()), Some(Refusal::DeleteOfPool("pool".into())));
        assert_eq!(refuse(Method::Delete, &SET.replace("pool", "kiln-canary-r1"), &Headers::new()), None);
    }

    #[test]
    fn an_instance_is_put_by_its_revision_and_its_neighbours_are_free() {
        let instance = format!("{SET}/virtualMachines/0");
        assert_eq!(refuse(Method::Put, &instance, &Headers::new()), Some(Refusal::BlindPutOfInstance));
        assert_eq!(refuse(Method::Put, &instance, &with("if-match", "\"1\"")), None);
        let extension = format!("{SET}/extensions/x");
        assert_eq!(refuse(Method::Put, &extension, &Headers::new()), Some(Refusal::PutOfExtension));
        assert_eq!(refuse(Method::Put, &extension, &with("if-none-match", "*")), None);
        assert_eq!(refuse(Method::Delete, &extension, &Headers::new()), None);
        assert_eq!(refuse(Method::Get, SET, &Headers::new()), None);
    }
}
