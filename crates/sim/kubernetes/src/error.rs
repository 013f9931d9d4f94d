//! Errors of the API server: `Status` objects with the wording of Kubernetes.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::resource::Resource;

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError(Box<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// Such as `FieldValueInvalid`.
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self { reason: "FieldValueRequired", field: field.into(), message }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self { reason: "FieldValueInvalid", field: field.into(), message: format!("Invalid value: {value}: {why}") }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {why}") }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|one| format!("{one:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!("Unsupported value: {value}: supported values: {}", known.join(", ")),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self { reason: "FieldValueDuplicate", field: field.into(), message: format!("Duplicate value: {value}") }
    }
}

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, reason, message: message.into(), details: Map::new() }))
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.detail("kind", json!(resource.plural));
        if !resource.group.is_empty() {
            self.detail("group", json!(resource.group));
        }
        if !name.is_empty() {
            self.detail("name", json!(name));
        }
        self
    }

    fn detail(&mut self, key: &str, value: Value) {
        self.0.details.insert(key.to_owned(), value);
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// An unknown path.
    pub(crate) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// The object was modified by another client.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A failed precondition of a deletion. Its message has the kind where other conflicts have the resource.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let qualified = if resource.group.is_empty() {
            resource.kind.to_owned()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name);
        error.detail("kind", json!(resource.kind));
        error
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    pub(crate) fn terminating(resource: &Resource, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        Self::forbidden(resource, name, &why).because(&[FieldError {
            reason: "NamespaceTerminating",
            field: "metadata.namespace".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
        }])
    }

    /// An object of another kind than its resource; the message has the kind that was given.
    pub(crate) fn invalid_kind(given: &str, resource: &Resource, name: &str, cause: &FieldError) -> Self {
        let message = format!("{given}.{} \"{name}\" is invalid: {}: {}", resource.group, cause.field, cause.message);
        let error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(resource, name);
        let mut error = error.because(std::slice::from_ref(cause));
        error.detail("kind", json!(given));
        error
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[FieldError]) -> Self {
        let each: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let summary = match each.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let qualified = if resource.group.is_empty() {
            resource.kind.to_owned()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let message = format!("{qualified} \"{name}\" is invalid: {summary}");
        let mut error =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(resource, name).because(causes);
        error.detail("kind", json!(resource.kind));
        error
    }

    /// A conflict of an applied configuration with other managers.
    pub(crate) fn apply_conflict(message: String, causes: &[FieldError]) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message).because(causes)
    }

    /// An invalid query; `kind` is the type of its options.
    pub(crate) fn invalid_options(kind: &str, cause: &FieldError) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}: {}", cause.field, cause.message);
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        error.detail("group", json!("meta.k8s.io"));
        error.detail("kind", json!(kind));
        error.because(std::slice::from_ref(cause))
    }

    /// A patch that cannot be applied to the object.
    pub(crate) fn inapplicable_patch(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(crate) fn expired(message: &str) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// A revision in the future.
    pub(crate) fn too_large(requested: u64, current: u64) -> Self {
        let mut error = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
        );
        error.detail("retryAfterSeconds", json!(1));
        error.because(&[FieldError {
            reason: "ResourceVersionTooLarge",
            field: String::new(),
            message: "Too large resource version".to_owned(),
        }])
    }

    pub(crate) fn method(resource: &Resource, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", resource.qualified());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).about(resource, "")
    }

    /// A method that a path without resource does not support.
    pub(crate) fn method_of_path() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub(crate) fn media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn too_large_body(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        error.detail("causes", json!([{"message": message}]));
        error
    }

    /// A 500 without a reason.
    pub(crate) fn without_reason(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// A budget that does not allow an eviction now.
    pub(crate) fn budget(message: String, retry_after: u32) -> Self {
        let mut error = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        );
        if retry_after > 0 {
            error.detail("retryAfterSeconds", json!(retry_after));
        }
        error.because(&[FieldError { reason: "DisruptionBudget", field: String::new(), message }])
    }

    fn because(mut self, causes: &[FieldError]) -> Self {
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| {
                let mut one = json!({"reason": cause.reason, "message": cause.message});
                if !cause.field.is_empty() {
                    one["field"] = json!(cause.field);
                }
                one
            })
            .collect();
        self.detail("causes", json!(causes));
        self
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let inner = &*self.0;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": inner.message, "code": inner.code.as_u16(),
        });
        if !inner.reason.is_empty() {
            status["reason"] = json!(inner.reason);
        }
        if !inner.details.is_empty() {
            status["details"] = json!(inner.details);
        }
        status
    }

    /// The HTTP response.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.status().to_string()));
        *response.status_mut() = self.0.code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.0.details.get("retryAfterSeconds").and_then(Value::as_u64) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
