//! Objects as table rows, for `kubectl get`.

mod columns;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::custom::Definition;
use crate::meta;
use crate::resource::ObjectKind;
use crate::store::Object;

/// How much of an object its row contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Everything,
}

impl Include {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "None" => Self::Nothing,
            "Object" => Self::Everything,
            _ => Self::Metadata,
        }
    }
}

/// Makes a table. Custom resources have a definition, which declares their columns.
pub(crate) fn table(
    (object_kind, definition): (ObjectKind, Option<&Definition>),
    objects: &[Object],
    include: Include,
    columns: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells = match definition {
                Some(definition) => {
                    let own = definition.columns.iter().map(|column| column.cell(object, now));
                    std::iter::once(json!(meta::name(object))).chain(own).collect()
                }
                None => columns::cells(object_kind, object, now),
            };
            let mut row = json!({"cells": cells});
            match include {
                Include::Nothing => {}
                Include::Metadata => row["object"] = metadata_of(object),
                Include::Everything => row["object"] = Value::clone(object),
            }
            row
        })
        .collect();
    let definitions = match definition {
        _ if !columns => Value::Null,
        Some(definition) => {
            let name = columns::definition(&("Name", "string", false));
            std::iter::once(name).chain(definition.columns.iter().map(crate::custom::Column::definition)).collect()
        }
        None => columns::definitions(object_kind),
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// Only the metadata of an object.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// The age in the format of kubectl.
pub(crate) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = (now - since).total(jiff::Unit::Second).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "ages are far below 2^63 seconds")]
    duration(seconds as i64)
}

/// Formats a duration like kubectl: two units where the smaller one matters.
fn duration(seconds: i64) -> String {
    let pair = |large: i64, unit: char, small: i64, fine: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{fine}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..120 => format!("{}s", seconds.max(0)),
        120..600 => pair(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

fn created(object: &Value, now: Timestamp) -> String {
    age(meta::text(object, "/metadata/creationTimestamp"), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_like_kubectl() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (3600, "60m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }
}
