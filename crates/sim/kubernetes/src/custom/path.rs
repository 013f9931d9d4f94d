//! The subset of `JSONPath` that printer columns use: fields, indices, `[*]`, and `[?(@.field=="value")]`.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// The elements of which this field has this value.
    Where(Vec<Step>, String),
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

impl Path {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` if it has other syntax.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        steps(text).map(Self)
    }

    /// The values at the path.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        follow(&self.0, value)
    }
}

fn follow<'v>(steps: &[Step], value: &'v Value) -> Vec<&'v Value> {
    let Some((step, rest)) = steps.split_first() else {
        return vec![value];
    };
    let next: Vec<&Value> = match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            let length = i64::try_from(list.len()).unwrap_or_default();
            let index = if *index < 0 { length + index } else { *index };
            usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
        }
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Where(field, wanted) => {
            let is_wanted = |found: &&Value| match found {
                Value::String(text) => text == wanted,
                other => other.to_string() == *wanted,
            };
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            list.iter().filter(|element| follow(field, element).iter().any(is_wanted)).collect()
        }
    };
    next.into_iter().flat_map(|value| follow(rest, value)).collect()
}

fn steps(mut text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !text.is_empty() {
        if let Some(rest) = text.strip_prefix('[') {
            let end = closing(rest)?;
            steps.push(bracket(&rest[..end])?);
            text = &rest[end + 1..];
        } else {
            let (name, rest) = field(text.strip_prefix('.').unwrap_or(text));
            match name.as_str() {
                // A path may end with a dot; two dots would search recursively.
                "" if rest.is_empty() => {}
                "" if rest.starts_with('[') => {}
                "" => return None,
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            text = rest;
        }
    }
    Some(steps)
}

/// A field name up to the next dot or bracket; a backslash escapes a dot.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// The position of the bracket that ends a step, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = text.parse() {
        return Some(Step::Index(index));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (left, right) = filter.split_once("==")?;
        let field = steps(left.trim().strip_prefix('@')?)?;
        let right = right.trim();
        return Some(Step::Where(field, unquote(right).unwrap_or(right).to_owned()));
    }
    unquote(text).map(|name| Step::Field(name.to_owned()))
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_find_their_values() {
        let object = json!({
            "spec": {"a": {"b.c": 1}, "list": [{"n": 1}, {"n": 2}]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
            "metadata": {"labels": {"x.y/z": "v"}},
        });
        for (path, found) in [
            (".spec.a.b\\.c", vec![json!(1)]),
            (".spec.list[*].n", vec![json!(1), json!(2)]),
            (".spec.list[0].n", vec![json!(1)]),
            (".spec.list[-1].n", vec![json!(2)]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".status.conditions[?(@.type == 'None')].status", vec![]),
            (".metadata.labels['x.y/z']", vec![json!("v")]),
            (".spec.missing.deep", vec![]),
        ] {
            let values: Vec<Value> = Path::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(values, found, "{path}");
        }
        assert_eq!(Path::parse("..name"), None);
    }
}
