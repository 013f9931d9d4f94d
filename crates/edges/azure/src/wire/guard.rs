//! A safety check of every request.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, Headers};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Method, Request};
use kiln_types::{CanaryName, PoolName};

/// The reason why a request is blocked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Reading a scale set omits custom data and protected settings, so a PUT of what was read would delete them.
    #[error("PUT of a scale set without `If-None-Match: *`; existing scale sets may only be patched")]
    PutOfScaleSet,
    /// A PATCH without an ETag, or with `*` for any, could overwrite a concurrent change.
    #[error("PATCH of a scale set without the ETag of a read in `If-Match`")]
    BlindPatchOfScaleSet,
    #[error("scale set `{0}` is not a canary and must not be deleted")]
    DeleteOfPool(String),
    /// The protected settings of an existing extension cannot be read, so a PUT would lose them.
    #[error("PUT of an extension without `If-None-Match: *`; existing extensions must not be replaced")]
    PutOfExtension,
    /// As for a PATCH of a scale set.
    #[error("PUT of an instance without the ETag of a read in `If-Match`")]
    BlindPutOfInstance,
}

/// Blocks requests that kiln must never send, whatever bug the layers above have.
#[derive(Debug)]
pub struct RequestGuard;

#[async_trait]
impl Policy for RequestGuard {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        if let Some(refusal) = refuse(request.method(), request.url().path(), request.headers()) {
            return Err(azure_core::Error::new(ErrorKind::Other, refusal));
        }
        next[0].send(ctx, request, &next[1..]).await
    }
}

fn refuse(method: Method, path: &str, headers: &Headers) -> Option<Refusal> {
    let etag = headers.get_optional_str(&HeaderName::from_static("if-match")).unwrap_or_default();
    let is_conditional = !etag.is_empty() && etag != "*";
    let creates_only = headers.get_optional_str(&HeaderName::from_static("if-none-match")) == Some("*");
    match (method, target(path)?) {
        (Method::Put, Target::ScaleSet(_)) if !creates_only => Some(Refusal::PutOfScaleSet),
        (Method::Patch, Target::ScaleSet(_)) if !is_conditional => Some(Refusal::BlindPatchOfScaleSet),
        (Method::Put | Method::Patch, Target::Extension) if !creates_only => Some(Refusal::PutOfExtension),
        (Method::Put, Target::Instance) if !is_conditional => Some(Refusal::BlindPutOfInstance),
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

    fn header(name: &'static str, value: &'static str) -> Headers {
        let mut headers = Headers::new();
        headers.insert(name, value);
        headers
    }

    #[test]
    fn scale_set_put_requires_if_none_match() {
        assert_eq!(refuse(Method::Put, SET, &Headers::new()), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &header("if-match", "\"1\"")), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &header("if-none-match", "\"1\"")), Some(Refusal::PutOfScaleSet));
        assert_eq!(refuse(Method::Put, SET, &header("if-none-match", "*")), None);
        let shouted = format!("{}/", SET.to_ascii_uppercase());
        assert_eq!(refuse(Method::Put, &shouted, &Headers::new()), Some(Refusal::PutOfScaleSet));
    }

    #[test]
    fn scale_set_patch_requires_if_match() {
        assert_eq!(refuse(Method::Patch, SET, &Headers::new()), Some(Refusal::BlindPatchOfScaleSet));
        assert_eq!(refuse(Method::Patch, SET, &header("if-match", "*")), Some(Refusal::BlindPatchOfScaleSet));
        assert_eq!(refuse(Method::Patch, SET, &header("if-match", "\"1\"")), None);
    }

    #[test]
    fn only_canaries_may_be_deleted() {
        assert_eq!(refuse(Method::Delete, SET, &Headers::new()), Some(Refusal::DeleteOfPool("pool".into())));
        assert_eq!(refuse(Method::Delete, &SET.replace("pool", "kiln-canary-r1"), &Headers::new()), None);
    }

    #[test]
    fn instance_put_requires_if_match_and_extension_put_if_none_match() {
        let instance = format!("{SET}/virtualMachines/0");
        assert_eq!(refuse(Method::Put, &instance, &Headers::new()), Some(Refusal::BlindPutOfInstance));
        assert_eq!(refuse(Method::Put, &instance, &header("if-match", "\"1\"")), None);
        let extension = format!("{SET}/extensions/x");
        assert_eq!(refuse(Method::Put, &extension, &Headers::new()), Some(Refusal::PutOfExtension));
        assert_eq!(refuse(Method::Put, &extension, &header("if-none-match", "*")), None);
        assert_eq!(refuse(Method::Delete, &extension, &Headers::new()), None);
        assert_eq!(refuse(Method::Get, SET, &Headers::new()), None);
    }
}
