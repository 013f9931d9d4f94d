//! Validation rules in CEL (`x-kubernetes-validations`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::objects::{Key, Map};
use cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use super::fields::{field_schema, flag};
use super::validate::{list_key, type_name};
use crate::error::FieldError;
use crate::meta;

/// The compiled rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    root: Node,
    schema: Value,
}

/// The rules of a value, and those of the values in it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    fields: BTreeMap<String, Node>,
    /// Those of fields without a schema of their own.
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    program: Program,
    /// Compares with the previous value.
    is_transition: bool,
    message: String,
    message_program: Option<Program>,
    reason: &'static str,
    field_path: String,
}

impl Rules {
    /// Compiles the rules of a schema. [`errors`] finds those that cannot be compiled; they are left out here.
    pub(crate) fn compile(schema: &Value) -> Self {
        Self { root: Node::compile(schema), schema: schema.clone() }
    }

    pub(super) fn are_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Checks a valid object. `old` is the object before the change.
    pub(super) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut causes = Vec::new();
        self.root.check(&self.schema, (object, old), "", &mut causes);
        causes
    }
}

/// The rules of a schema that cannot be compiled.
pub(super) fn errors(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut causes = Vec::new();
    for (index, rule) in meta::list(schema, "/x-kubernetes-validations").iter().enumerate() {
        let text = meta::text(rule, "/rule");
        if let Err(error) = Program::compile(text) {
            let field = format!("{path}.x-kubernetes-validations[{index}].rule");
            causes.push(FieldError::invalid(field, &rule["rule"], &format!("compilation failed: {error}")));
        }
    }
    for (field, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        causes.extend(errors(schema, &format!("{path}.properties[{field}]")));
    }
    for field in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(field) {
            causes.extend(errors(schema, &format!("{path}.{field}")));
        }
    }
    causes
}

impl Rule {
    fn compile(rule: &Value) -> Option<Self> {
        // A rule with an optional previous value uses an extension of the language.
        if flag(rule, "optionalOldSelf") {
            return None;
        }
        let text = meta::text(rule, "/rule").to_owned();
        let program = Program::compile(&text).ok()?;
        Some(Self {
            is_transition: program.references().has_variable("oldSelf"),
            program,
            message: meta::text(rule, "/message").to_owned(),
            message_program: Program::compile(meta::text(rule, "/messageExpression")).ok(),
            reason: match meta::text(rule, "/reason") {
                "FieldValueRequired" => "FieldValueRequired",
                "FieldValueForbidden" => "FieldValueForbidden",
                "FieldValueDuplicate" => "FieldValueDuplicate",
                _ => "FieldValueInvalid",
            },
            field_path: meta::text(rule, "/fieldPath").to_owned(),
            text,
        })
    }

    /// The error of a value that breaks the rule.
    fn check(&self, context: &Context<'_, '_>, value: &Value, path: &str) -> Option<FieldError> {
        let why = match self.program.execute(context) {
            // Kubernetes' own functions, such as `quantity`, are not part of the language.
            Ok(CelValue::Bool(true)) | Err(ExecutionError::UndeclaredReference(_)) => return None,
            Ok(_) => self.describe(context),
            Err(ExecutionError::NoSuchKey(key)) => {
                format!("no such key: {key} evaluating rule: {}", self.describe(context))
            }
            Err(error) => format!("{error} evaluating rule: {}", self.describe(context)),
        };
        let field = format!("{path}{}", self.field_path);
        Some(FieldError {
            reason: self.reason,
            field: if path.is_empty() { field.trim_start_matches('.').to_owned() } else { field },
            message: match self.reason {
                "FieldValueRequired" => format!("Required value: {why}"),
                "FieldValueForbidden" => format!("Forbidden: {why}"),
                "FieldValueDuplicate" => format!("Duplicate value: {:?}", type_name(value)),
                _ => format!("Invalid value: {:?}: {why}", type_name(value)),
            },
        })
    }

    fn describe(&self, context: &Context<'_, '_>) -> String {
        let expressed = self.message_program.as_ref().and_then(|program| program.execute(context).ok());
        match expressed {
            Some(CelValue::String(text)) => text.to_string(),
            _ if self.message.is_empty() => format!("failed rule: {}", self.text),
            _ => self.message.clone(),
        }
    }
}

impl Node {
    fn compile(schema: &Value) -> Self {
        let node = |schema: &Value| Some(Self::compile(schema)).filter(|node| !node.is_empty());
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self {
            rules: meta::list(schema, "/x-kubernetes-validations").iter().filter_map(Rule::compile).collect(),
            fields: fields.filter_map(|(field, schema)| Some((field.clone(), node(schema)?))).collect(),
            additional: schema.get("additionalProperties").and_then(node).map(Box::new),
            items: schema.get("items").and_then(node).map(Box::new),
        }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fields.is_empty() && self.additional.is_none() && self.items.is_none()
    }

    fn check(&self, schema: &Value, (value, old): (&Value, Option<&Value>), path: &str, causes: &mut Vec<FieldError>) {
        if !self.rules.is_empty() {
            let mut context = Context::default();
            context.add_variable_from_value("self", to_cel(schema, value));
            if let Some(old) = old {
                context.add_variable_from_value("oldSelf", to_cel(schema, old));
            }
            let rules = self.rules.iter().filter(|rule| !rule.is_transition || old.is_some());
            causes.extend(rules.filter_map(|rule| rule.check(&context, value, path)));
        }
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let declared = schema.get("properties").is_some_and(|properties| properties.get(field).is_some());
                    let node = if declared { self.fields.get(field) } else { self.additional.as_deref() };
                    if let (Some(node), Some(schema)) = (node, field_schema(schema, field)) {
                        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                        node.check(schema, (value, old.and_then(|old| old.get(field))), &path, causes);
                    }
                }
            }
            Value::Array(items) => {
                let (Some(node), Some(inner)) = (&self.items, schema.get("items")) else {
                    return;
                };
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| same_item(schema, item, old));
                    node.check(inner, (item, old), &format!("{path}[{index}]"), causes);
                }
            }
            _ => {}
        }
    }
}

/// The previous state of an element. Only the elements of a list that is a map have an identity.
fn same_item<'v>(schema: &Value, item: &Value, old: &'v Value) -> Option<&'v Value> {
    if schema.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map") {
        return None;
    }
    let key = list_key(schema, item);
    old.as_array()?.iter().find(|old| list_key(schema, old) == key)
}

fn to_cel(schema: &Value, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) if schema.get("type").and_then(Value::as_str) != Some("number") => CelValue::Int(number),
            _ => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let inner = schema.get("items").unwrap_or(&Value::Null);
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(inner, item)).collect()))
        }
        Value::Object(fields) => {
            let is_declared = |field: &str| schema.get("properties").is_some_and(|all| all.get(field).is_some());
            let entries = fields.iter().map(|(field, value)| {
                let name = if is_declared(field) { escape(field) } else { field.clone() };
                (Key::String(Arc::new(name)), to_cel(field_schema(schema, field).unwrap_or(&Value::Null), value))
            });
            CelValue::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Words of the language that are not identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in rules.
fn escape(field: &str) -> String {
    if RESERVED.contains(&field) {
        return format!("__{field}__");
    }
    field.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
        let found = Rules::compile(schema).check(object, old);
        found.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn transition_rules_follow_the_key_of_an_element() {
        let schema = json!({"properties": {"list": {
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"properties": {"name": {}, "n": {"x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}},
        }}});
        let old = json!({"list": [{"name": "a", "n": 1}, {"name": "b", "n": 5}]});
        let new = json!({"list": [{"name": "b", "n": 4}, {"name": "a", "n": 2}, {"name": "c", "n": 0}]});
        let expected = "list[0].n: Invalid value: \"integer\": failed rule: self >= oldSelf";
        assert_eq!(messages(&schema, &new, Some(&old)), [expected]);
        assert!(messages(&schema, &new, None).is_empty());
    }

    #[test]
    fn fields_with_reserved_names_are_escaped() {
        let schema = json!({
            "properties": {"namespace": {"type": "string"}, "a-b": {"type": "number"}},
            "x-kubernetes-validations": [{"rule": "self.__namespace__ == 'x' && self.a__dash__b < 1.5"}],
        });
        assert!(messages(&schema, &json!({"namespace": "x", "a-b": 1}), None).is_empty());
        assert_eq!(messages(&schema, &json!({"namespace": "y", "a-b": 1}), None).len(), 1);
    }

    #[test]
    fn missing_field_breaks_a_rule_and_unknown_function_does_not() {
        let rule = |rule: &str| json!({"x-kubernetes-validations": [{"rule": rule, "message": "m"}]});
        assert_eq!(messages(&rule("self.x > 1"), &json!({}), None).len(), 1);
        assert!(messages(&rule("isQuantity(self.x)"), &json!({"x": "1"}), None).is_empty());
        assert_eq!(errors(&rule("self.x >"), "p")[0].field, "p.x-kubernetes-validations[0].rule");
    }
}
