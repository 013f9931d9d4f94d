//! A parsed request: its target, verb and options.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::custom::Definitions;
use crate::error::{ApiError, Result};
use crate::resource::{ObjectKind, Resource, Subresource, VERSION};

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A resource, one of its objects, or a subresource.
    Resource { resource: &'static Resource, namespace: Option<String>, name: Option<String>, sub: Option<Subresource> },
    /// `SelfSubjectAccessReview`.
    AccessReview,
    /// Anything else: discovery, health, version.
    Other(String),
}

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    pub(crate) target: Target,
    query: Vec<(String, String)>,
    pub(crate) accept: String,
    content_type: String,
    user_agent: &'a str,
    body: &'a Bytes,
}

impl<'a> Call<'a> {
    pub(crate) fn new(request: &'a Request<Bytes>, definitions: &Definitions) -> Result<Self> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Self {
            method: request.method(),
            target: target(request.uri().path(), definitions)?,
            query: query(request.uri().query().unwrap_or_default()),
            accept: header(ACCEPT).to_owned(),
            content_type: header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
            user_agent: header(USER_AGENT),
            body: request.body(),
        })
    }

    /// A query parameter; empty if it is missing.
    pub(crate) fn option(&self, name: &str) -> &str {
        self.query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.option(name), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        match self.option(name) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad(format!("invalid value {text:?} of the query parameter {name}"))),
        }
    }

    /// Whether this is a dry run.
    pub(crate) fn dry_run(&self) -> Result<bool> {
        match self.option("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(ApiError::bad(format!("invalid dry run value {other:?}: supported values: \"All\""))),
        }
    }

    /// The body, which must be a JSON object.
    pub(crate) fn json(&self) -> Result<Value> {
        if !matches!(self.content_type.as_str(), "" | "application/json") {
            return Err(ApiError::media_type(&["application/json"]));
        }
        let value: Value = serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad(format!("couldn't get version/kind; json parse error: {error}")))?;
        if !value.is_object() {
            return Err(ApiError::bad("couldn't get version/kind; json parse error: the body is not an object"));
        }
        Ok(value)
    }

    /// The body, if there is one.
    pub(crate) fn json_if_any(&self) -> Result<Option<Value>> {
        if self.body.is_empty() { Ok(None) } else { self.json().map(Some) }
    }

    pub(crate) fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The owner of the fields that the request changes: the client's choice, else the start of its user agent.
    pub(crate) fn field_manager(&self) -> &str {
        match self.option("fieldManager") {
            "" => self.user_agent.split('/').next().filter(|name| !name.is_empty()).unwrap_or("unknown"),
            chosen => chosen,
        }
    }

    pub(crate) fn body(&self) -> &Bytes {
        self.body
    }

    /// Whether the client accepts JSON.
    pub(crate) fn accepts_json(&self) -> bool {
        self.accept.is_empty()
            || self.accept.split(',').any(|one| {
                matches!(one.split(';').next().map(str::trim), Some("application/json" | "application/*" | "*/*"))
            })
    }

    /// The first supported representation in `Accept`: the object, a `Table`, or only metadata.
    pub(crate) fn form(&self) -> Form {
        self.accept
            .split(',')
            .find_map(|one| {
                let mut parts = one.split(';').map(str::trim);
                if !matches!(parts.next(), Some("application/json" | "*/*" | "application/*")) {
                    return None;
                }
                let parts: Vec<_> = parts.collect();
                if parts.contains(&"g=meta.k8s.io") && !parts.contains(&"v=v1") {
                    return None;
                }
                match parts.iter().find_map(|part| part.strip_prefix("as=")) {
                    Some("Table") => Some(Form::Table),
                    Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
                    Some(_) => None,
                    None => Some(Form::Plain),
                }
            })
            .unwrap_or(Form::Plain)
    }
}

/// The representation of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Table,
    Metadata,
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        })
        .collect()
}

fn target(path: &str, definitions: &Definitions) -> Result<Target> {
    let segments: Vec<String> = path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", VERSION, rest @ ..] => ("", VERSION, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Ok(Target::Other(path.to_owned())),
    };
    if rest.is_empty() {
        return Ok(Target::Other(path.to_owned()));
    }
    if (group, rest) == ("authorization.k8s.io", &["selfsubjectaccessreviews"]) {
        return Ok(Target::AccessReview);
    }
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status"] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (plural, name, sub) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some((*name).to_owned()), None),
        [plural, name, sub] => (*plural, Some((*name).to_owned()), Some(*sub)),
        _ => return Err(ApiError::no_such_path()),
    };
    let built_in = || Resource::find(group, plural).filter(|resource| resource.version == version);
    let custom = || definitions.find(group, version, plural).map(|definition| definition.resource);
    let resource = built_in().or_else(custom).ok_or_else(ApiError::no_such_path)?;
    let sub = match sub {
        None => None,
        Some(sub) => {
            let known = resource.subresources.iter().copied().find(|known| known.name() == sub);
            Some(known.ok_or_else(ApiError::no_such_path)?)
        }
    };
    // Namespaced objects need a namespace in the path; Namespace objects must not have one.
    if (namespace.is_some() && !resource.namespaced)
        || (namespace.is_none() && resource.namespaced && name.is_some())
        || (namespace.is_some() && resource.object_kind == ObjectKind::Namespace)
    {
        return Err(ApiError::no_such_path());
    }
    Ok(Target::Resource { resource, namespace, name, sub })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (&'static str, Option<String>, Option<String>, Option<Subresource>);

    fn parse(path: &str) -> Option<Parts> {
        match target(path, &Definitions::default()).ok()? {
            Target::Resource { resource, namespace, name, sub } => Some((resource.plural, namespace, name, sub)),
            _ => None,
        }
    }

    #[test]
    fn paths_are_parsed_into_resources_objects_and_subresources() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(parse("/api/v1/nodes"), Some(("nodes", None, None, None)));
        assert_eq!(parse("/api/v1/pods"), Some(("pods", None, None, None)));
        assert_eq!(parse("/api/v1/namespaces/a"), Some(("namespaces", None, text("a"), None)));
        assert_eq!(
            parse("/api/v1/namespaces/a/status"),
            Some(("namespaces", None, text("a"), Some(Subresource::Status)))
        );
        assert_eq!(
            parse("/api/v1/namespaces/a/pods/b/eviction"),
            Some(("pods", text("a"), text("b"), Some(Subresource::Eviction)))
        );
        assert_eq!(
            parse("/apis/policy/v1/namespaces/a/poddisruptionbudgets/b"),
            Some(("poddisruptionbudgets", text("a"), text("b"), None))
        );
        for bad in ["/api/v1/pods/b", "/api/v1/namespaces/a/nodes/b", "/api/v1/endpoints", "/api/v1/nodes/a/proxy"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn first_supported_representation_in_accept_wins() {
        let form = |accept: &str| {
            let request = Request::get("/api/v1/nodes").header(ACCEPT, accept).body(Bytes::new()).unwrap();
            Call::new(&request, &Definitions::default()).unwrap().form()
        };
        assert_eq!(form("application/json"), Form::Plain);
        assert_eq!(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Form::Table);
        assert_eq!(form("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"), Form::Plain);
        assert_eq!(form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), Form::Metadata);
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Form::Plain);
    }

    #[test]
    fn query_parameters_are_decoded() {
        let request = Request::get("/api/v1/pods?fieldSelector=spec.nodeName%3Da%2Cb&watch=1&x=a+b");
        let request = request.body(Bytes::new()).unwrap();
        let call = Call::new(&request, &Definitions::default()).unwrap();
        assert_eq!(call.option("fieldSelector"), "spec.nodeName=a,b");
        assert!(call.flag("watch"));
        assert_eq!(call.option("x"), "a b");
        assert!(call.number::<u64>("x").is_err());
    }
}
