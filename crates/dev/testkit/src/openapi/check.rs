//! Checks one exchange against its operation.

use serde_json::{Map, Value};

use super::document::Node;
use super::finding::{Finding, Kind, Side};
use super::strict::{self, Purpose};
use super::{Contract, bundle};

/// Collects the findings of one exchange.
pub(super) struct Check<'a> {
    contract: &'a Contract,
    operation: Node<'a>,
    method: &'a str,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Check<'a> {
    pub(super) fn new(contract: &'a Contract, operation: Node<'a>, method: &'a str) -> Self {
        Self { contract, operation, method, findings: Vec::new() }
    }

    pub(super) fn parameters(&mut self, captured: &[(&str, String)], query: &[(String, String)]) {
        for (name, value) in captured {
            if let Some(parameter) = self.declared("path").find(|parameter| is_named(*parameter, name)) {
                self.value(parameter, name, value);
            }
        }
        for (name, value) in query {
            match self.declared("query").find(|parameter| is_named(*parameter, name)) {
                Some(parameter) => self.value(parameter, name, value),
                None if self.is_continuation(name) => {}
                None => self.find(Side::Request, Kind::Parameter, format!("unknown query parameter `{name}`")),
            }
        }
        let names: Vec<&str> = query.iter().map(|(name, _)| name.as_str()).collect();
        self.missing("query", &names);
    }

    pub(super) fn headers(&mut self, headers: &[(&str, &str)]) {
        for (name, value) in headers {
            if let Some(parameter) = self.declared("header").find(|parameter| is_named(*parameter, name)) {
                self.value(parameter, name, value);
            }
        }
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        self.missing("header", &names);
    }

    pub(super) fn request(&mut self, body: Option<&Value>) {
        let parameter = self.declared("body").next();
        match (parameter, body) {
            (None, Some(_)) => self.find(Side::Request, Kind::Body, "the operation has no body"),
            (Some(parameter), None) if parameter.flag("required") => {
                self.find(Side::Request, Kind::Body, "the body is missing");
            }
            (Some(parameter), Some(body)) => {
                if let Some(schema) = parameter.get("schema") {
                    self.body(schema, body, Purpose::of_request(self.method));
                }
            }
            (_, None) => {}
        }
    }

    pub(super) fn response(&mut self, status: u16, body: Option<&Value>) {
        let declared = self.operation.get("responses");
        let exact = declared.and_then(|responses| responses.get(&status.to_string()));
        let is_error = status >= 400;
        let response = exact.or_else(|| declared.filter(|_| is_error)?.get("default"));
        let schema = match response.map(Node::resolved) {
            Some(response) => response.get("schema"),
            // Disks and snapshots declare no errors; they return ARM's common error response.
            None if is_error => self.contract.documents.definition(ENVELOPE.0, ENVELOPE.1),
            None => {
                return self.find(Side::Response, Kind::UndeclaredStatus, format!("status {status} is not declared"));
            }
        };
        match (schema, body) {
            (None, Some(_)) => {
                self.find(Side::Response, Kind::Body, format!("status {status} is declared without a body"));
            }
            (Some(_), None) if !self.method.eq_ignore_ascii_case("HEAD") => {
                self.find(Side::Response, Kind::Body, format!("the body of status {status} is missing"));
            }
            // A file is not JSON.
            (Some(schema), Some(_)) if schema.text("type") == Some("file") => {}
            (Some(schema), Some(body)) => self.body(schema, body, Purpose::Read),
            (_, None) => {}
        }
    }

    fn body(&mut self, schema: Node<'a>, body: &Value, purpose: Purpose) {
        for offence in strict::walk(schema, body, purpose) {
            self.findings.push(Finding {
                operation: self.id(),
                side: purpose.side(),
                pointer: offence.pointer,
                kind: offence.kind,
                message: offence.message,
            });
        }
        // In a merge patch `null` removes a member of any type.
        let merged = (purpose == Purpose::Update).then(|| without_nulls(body));
        self.validate(schema, merged.as_ref().unwrap_or(body), purpose.side());
    }

    fn validate(&mut self, schema: Node<'a>, body: &Value, side: Side) {
        match self.contract.validator(schema, side) {
            Err(error) => self.find(side, Kind::Schema, format!("the specification's schema is unusable: {error}")),
            Ok(validator) => {
                for error in validator.iter_errors(body) {
                    self.findings.push(Finding {
                        operation: self.id(),
                        side,
                        pointer: error.instance_path().to_string(),
                        kind: Kind::Schema,
                        // Masked: findings are printed, and a body may contain secrets.
                        message: error.masked().to_string(),
                    });
                }
            }
        }
    }

    /// Checks a parameter outside the body. Its value is text and its declaration is a schema with additional members.
    fn value(&mut self, parameter: Node<'a>, name: &str, text: &str) {
        // Clients use newer versions than the stored ones.
        if name == "api-version" {
            return;
        }
        let number = || text.parse::<i64>().map(Value::from);
        let value = match parameter.text("type") {
            Some("integer") => number().ok(),
            Some("number") => number().ok().or_else(|| text.parse::<f64>().ok().map(Value::from)),
            Some("boolean") => text.parse::<bool>().ok().map(Value::from),
            _ => None,
        };
        let value = value.unwrap_or_else(|| Value::from(text));
        let verdict = jsonschema::draft4::new(&bundle::draft4(parameter, Side::Request));
        let message = match &verdict {
            Err(error) => Some(format!("the specification's parameter is unusable: {error}")),
            Ok(validator) => validator.validate(&value).err().map(|error| error.masked().to_string()),
        };
        if let Some(message) = message {
            self.find(Side::Request, Kind::Parameter, format!("parameter `{name}`: {message}"));
        }
    }

    fn missing(&mut self, place: &str, present: &[&str]) {
        let declared: Vec<Node<'a>> = self.declared(place).filter(|parameter| parameter.flag("required")).collect();
        for parameter in declared {
            if !present.iter().any(|name| is_named(parameter, name)) {
                let name = parameter.text("name").unwrap_or_default();
                self.find(Side::Request, Kind::Parameter, format!("required {place} parameter `{name}` is missing"));
            }
        }
    }

    /// Services of ARM add this undeclared parameter to their `nextLink`.
    fn is_continuation(&self, name: &str) -> bool {
        self.operation.get("x-ms-pageable").is_some() && name.eq_ignore_ascii_case("$skiptoken")
    }

    fn declared(&self, place: &str) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let place = place.to_owned();
        let parameters = self.operation.items("parameters").map(Node::resolved);
        parameters.filter(move |parameter| parameter.text("in") == Some(&place))
    }

    fn id(&self) -> String {
        self.operation.text("operationId").unwrap_or("operation without id").to_owned()
    }

    fn find(&mut self, side: Side, kind: Kind, message: impl Into<String>) {
        self.findings.push(Finding {
            operation: self.id(),
            side,
            pointer: String::new(),
            kind,
            message: message.into(),
        });
    }
}

/// File and definition of ARM's common error response.
const ENVELOPE: (&str, &str) = ("common-types/resource-management/v5/types.json", "ErrorResponse");

/// Names of headers are case-insensitive, and ARM compares names of query parameters the same way.
fn is_named(parameter: Node<'_>, name: &str) -> bool {
    parameter.text("name").is_some_and(|known| known.eq_ignore_ascii_case(name))
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name.clone(), without_nulls(member))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
