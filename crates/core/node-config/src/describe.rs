//! Reflection of documents: name, documentation, type and effect of each field. The `document!` macro declares them together.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::effect::Effect;
use crate::secrets::{self, SuspectedSecret};

/// Type of a field.
#[derive(Clone, Debug)]
pub enum FieldType {
    Text,
    Boolean,
    /// A non-negative integer.
    Integer,
    /// One of these values.
    Choice(&'static [&'static str]),
    /// Any JSON.
    Any,
    List(Box<FieldType>),
    /// An object with arbitrary names.
    Map(Box<FieldType>),
    Object(fn() -> Shape),
}

/// Fields of an object.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name of the Rust type.
    pub name: &'static str,
    pub doc: String,
    pub fields: Vec<FieldInfo>,
}

/// Description of a field.
#[derive(Clone, Debug)]
pub struct FieldInfo {
    /// Name in JSON.
    pub name: String,
    pub doc: String,
    /// Effect of a change. A field that only groups others has none.
    pub effect: Option<Effect>,
    pub kind: FieldType,
}

impl Shape {
    /// Looks up a field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&FieldInfo> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the field that identifies elements of a list.
    pub fn key(&self) -> Option<&FieldInfo> {
        ["name", "path", "host"].into_iter().find_map(|key| self.field(key))
    }
}

/// A value that can describe its type.
pub trait Describe {
    /// Returns the type.
    fn kind() -> FieldType;

    /// Returns the paths of unknown fields in the value.
    fn unknown(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns everything in the value that looks like a secret. `name` is the name of its field.
    fn secrets(&self, _name: &str) -> Vec<SuspectedSecret> {
        Vec::new()
    }
}

impl Describe for String {
    fn kind() -> FieldType {
        FieldType::Text
    }

    fn secrets(&self, name: &str) -> Vec<SuspectedSecret> {
        secrets::find_in_text(name, self).into_iter().collect()
    }
}

impl Describe for bool {
    fn kind() -> FieldType {
        FieldType::Boolean
    }
}

impl Describe for u32 {
    fn kind() -> FieldType {
        FieldType::Integer
    }
}

impl Describe for u64 {
    fn kind() -> FieldType {
        FieldType::Integer
    }
}

impl Describe for Value {
    fn kind() -> FieldType {
        FieldType::Any
    }

    fn secrets(&self, name: &str) -> Vec<SuspectedSecret> {
        secrets::find_in_field(name, self)
    }
}

impl<T: Describe> Describe for Option<T> {
    fn kind() -> FieldType {
        T::kind()
    }

    fn unknown(&self) -> Vec<String> {
        self.as_ref().map_or_else(Vec::new, T::unknown)
    }

    fn secrets(&self, name: &str) -> Vec<SuspectedSecret> {
        self.as_ref().map_or_else(Vec::new, |value| value.secrets(name))
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn kind() -> FieldType {
        FieldType::List(Box::new(T::kind()))
    }

    fn unknown(&self) -> Vec<String> {
        let of = |(index, element): (usize, &T)| {
            element.unknown().into_iter().map(move |path| below(&format!("[{index}]"), &path))
        };
        self.iter().enumerate().flat_map(of).collect()
    }

    fn secrets(&self, _name: &str) -> Vec<SuspectedSecret> {
        let of = |(index, element): (usize, &T)| {
            element.secrets("").into_iter().map(move |found| found.within(&format!("[{index}]")))
        };
        self.iter().enumerate().flat_map(of).collect()
    }
}

impl<T: Describe> Describe for BTreeMap<String, T> {
    fn kind() -> FieldType {
        FieldType::Map(Box::new(T::kind()))
    }

    fn secrets(&self, _name: &str) -> Vec<SuspectedSecret> {
        let mut all = Vec::new();
        for (name, value) in self {
            all.extend(value.secrets(name).into_iter().map(|found| found.within(name)));
        }
        all
    }
}

/// Joins the path of a field or an element with a path inside it.
pub(crate) fn below(parent: &str, path: &str) -> String {
    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("{parent}{dot}{path}")
}

/// Returns the paths of unknown fields in a field, including its name.
pub(crate) fn unknown_in(field: &str, value: &impl Describe) -> Vec<String> {
    value.unknown().into_iter().map(|path| below(&camel_case(field), &path)).collect()
}

/// Returns suspected secrets in a field, with paths that include its name.
pub(crate) fn secrets_in(field: &str, value: &impl Describe) -> Vec<SuspectedSecret> {
    value.secrets(field).into_iter().map(|found| found.within(&camel_case(field))).collect()
}

/// Whether a value equals its default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Converts `service_ips` to `serviceIps`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (head, tail) = word.split_at(usize::from(!word.is_empty()));
        camel + &head.to_uppercase() + tail
    })
}

/// Joins the lines of a doc comment.
pub(crate) fn doc_text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Declares an object of a document. `field: Type = Effect` declares the effect of changing the field; a field without an effect groups
/// others. Unknown fields, such as those of later minor versions, are preserved in `extra`.
macro_rules! document {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $($(#[doc = $field_doc:literal])* $field:ident: $type:ty $(= $effect:ident)?,)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                #[serde(skip_serializing_if = "crate::describe::is_default")]
                pub $field: $type,
            )*
            /// Unknown fields.
            #[serde(flatten)]
            pub extra: std::collections::BTreeMap<String, serde_json::Value>,
        }

        impl $name {
            /// Describes the fields.
pub fn shape() -> crate::describe::Shape {
                crate::describe::Shape {
                    name: stringify!($name),
                    doc: crate::describe::doc_text(&[$($doc),*]),
                    fields: vec![$(crate::describe::FieldInfo {
                        name: crate::describe::camel_case(stringify!($field)),
                        doc: crate::describe::doc_text(&[$($field_doc),*]),
                        effect: crate::describe::document!(@effect $($effect)?),
                        kind: <$type as crate::describe::Describe>::kind(),
                    }),*],
                }
            }
        }

        impl crate::describe::Describe for $name {
            fn kind() -> crate::describe::FieldType {
                crate::describe::FieldType::Object($name::shape)
            }

            fn unknown(&self) -> Vec<String> {
                let mut unknown: Vec<String> = self.extra.keys().cloned().collect();
                $(unknown.extend(crate::describe::unknown_in(stringify!($field), &self.$field));)*
                unknown
            }

            fn secrets(&self, _name: &str) -> Vec<crate::secrets::SuspectedSecret> {
                let mut found = self.extra.secrets("");
                $(found.extend(crate::describe::secrets_in(stringify!($field), &self.$field));)*
                found
            }
        }
    };
    (@effect) => { None };
    (@effect $effect:ident) => { Some(crate::effect::Effect::$effect) };
}

/// Declares an enumeration of a document.
macro_rules! choice {
    ($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $variant_doc:literal])* $variant:ident = $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[doc = $variant_doc])* #[serde(rename = $text)] $variant,)*
            #[default]
            #[serde(rename = "")]
            Unset,
        }

        impl $name {
            /// Returns the name in documents.
pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unset => "",
                }
            }
        }

        impl crate::describe::Describe for $name {
            fn kind() -> crate::describe::FieldType {
                crate::describe::FieldType::Choice(&[$($text),*])
            }
        }
    };
}

pub(crate) use {choice, document};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_names_become_json_names() {
        assert_eq!(camel_case("service_ips"), "serviceIps");
        assert_eq!(camel_case("dns"), "dns");
        assert_eq!(doc_text(&[" One line.", " And another."]), "One line. And another.");
    }
}
