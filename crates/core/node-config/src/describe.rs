//! Documents that know their own fields: name, meaning, form, and what a change costs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::effect::Effect;
use crate::secrets::{self, Found};

/// The form of a value.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number that is not negative.
    Integer,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any JSON.
    Any,
    /// A list.
    List(Box<Kind>),
    /// An object with free names.
    Map(Box<Kind>),
    /// An object with the fields of a shape.
    Object(fn() -> Shape),
}

/// An object's fields.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The name of its type.
    pub name: &'static str,
    /// What it is.
    pub doc: String,
    /// Its fields.
    pub fields: Vec<FieldInfo>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldInfo {
    /// Its name in JSON.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// What a change costs. A field that only groups others has none.
    pub effect: Option<Effect>,
    /// Its form.
    pub kind: Kind,
}

impl Shape {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&FieldInfo> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field that tells elements of a list apart.
    pub fn key(&self) -> Option<&FieldInfo> {
        ["name", "path", "host"].into_iter().find_map(|key| self.field(key))
    }
}

/// A value that knows its form.
pub trait Describe {
    /// The form.
    fn kind() -> Kind;

    /// The paths of fields in it that this version does not know.
    fn unknown(&self) -> Vec<String> {
        Vec::new()
    }

    /// What looks like a secret in it, where it stands in a field of this name.
    fn secrets(&self, _name: &str) -> Vec<Found> {
        Vec::new()
    }
}

impl Describe for String {
    fn kind() -> Kind {
        Kind::Text
    }

    fn secrets(&self, name: &str) -> Vec<Found> {
        let found = |looks_like| Found { path: String::new(), looks_like };
        secrets::in_text(name, self).map(found).into_iter().collect()
    }
}

impl Describe for bool {
    fn kind() -> Kind {
        Kind::Boolean
    }
}

impl Describe for u32 {
    fn kind() -> Kind {
        Kind::Integer
    }
}

impl Describe for u64 {
    fn kind() -> Kind {
        Kind::Integer
    }
}

impl Describe for Value {
    fn kind() -> Kind {
        Kind::Any
    }

    fn secrets(&self, name: &str) -> Vec<Found> {
        secrets::named(name, self)
    }
}

impl<T: Describe> Describe for Option<T> {
    fn kind() -> Kind {
        T::kind()
    }

    fn unknown(&self) -> Vec<String> {
        self.as_ref().map_or_else(Vec::new, T::unknown)
    }

    fn secrets(&self, name: &str) -> Vec<Found> {
        self.as_ref().map_or_else(Vec::new, |value| value.secrets(name))
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn kind() -> Kind {
        Kind::List(Box::new(T::kind()))
    }

    fn unknown(&self) -> Vec<String> {
        let of = |(index, element): (usize, &T)| {
            element.unknown().into_iter().map(move |path| below(&format!("[{index}]"), &path))
        };
        self.iter().enumerate().flat_map(of).collect()
    }

    fn secrets(&self, _name: &str) -> Vec<Found> {
        let of = |(index, element): (usize, &T)| {
            element.secrets("").into_iter().map(move |found| found.within(&format!("[{index}]")))
        };
        self.iter().enumerate().flat_map(of).collect()
    }
}

impl<T: Describe> Describe for BTreeMap<String, T> {
    fn kind() -> Kind {
        Kind::Map(Box::new(T::kind()))
    }

    fn secrets(&self, _name: &str) -> Vec<Found> {
        let mut all = Vec::new();
        for (name, value) in self {
            all.extend(value.secrets(name).into_iter().map(|found| found.within(name)));
        }
        all
    }
}

/// The path of something in a field or an element.
pub(crate) fn below(place: &str, path: &str) -> String {
    let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
    format!("{place}{dot}{path}")
}

/// What is unknown in a field, with the field's name before each path.
pub(crate) fn unknown_in(field: &str, value: &impl Describe) -> Vec<String> {
    value.unknown().into_iter().map(|path| below(&camel_case(field), &path)).collect()
}

/// What looks like a secret in a field, with the field's name before each path.
pub(crate) fn secrets_in(field: &str, value: &impl Describe) -> Vec<Found> {
    value.secrets(field).into_iter().map(|found| found.within(&camel_case(field))).collect()
}

/// Whether a value is what an absent one would be.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `service_ips` as `serviceIps`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (head, tail) = word.split_at(usize::from(!word.is_empty()));
        camel + &head.to_uppercase() + tail
    })
}

/// The lines of a doc comment as one text.
pub(crate) fn doc_text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Declares an object of a document. `field: Type = Effect` says what a change of the field costs; a field without an effect groups
/// others. Names that a later minor version added are kept in `extra`.
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
            /// Fields that this version does not know.
            #[serde(flatten)]
            pub extra: std::collections::BTreeMap<String, serde_json::Value>,
        }

        impl $name {
            /// Its fields.
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
            fn kind() -> crate::describe::Kind {
                crate::describe::Kind::Object($name::shape)
            }

            fn unknown(&self) -> Vec<String> {
                let mut unknown: Vec<String> = self.extra.keys().cloned().collect();
                $(unknown.extend(crate::describe::unknown_in(stringify!($field), &self.$field));)*
                unknown
            }

            fn secrets(&self, _name: &str) -> Vec<crate::secrets::Found> {
                let mut found = self.extra.secrets("");
                $(found.extend(crate::describe::secrets_in(stringify!($field), &self.$field));)*
                found
            }
        }
    };
    (@effect) => { None };
    (@effect $effect:ident) => { Some(crate::effect::Effect::$effect) };
}

/// Declares a word of a fixed set.
macro_rules! choice {
    ($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $variant_doc:literal])* $variant:ident = $word:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[doc = $variant_doc])* #[serde(rename = $word)] $variant,)*
            /// Nothing was said.
            #[default]
            #[serde(rename = "")]
            Unset,
        }

        impl $name {
            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Unset => "",
                }
            }
        }

        impl crate::describe::Describe for $name {
            fn kind() -> crate::describe::Kind {
                crate::describe::Kind::Choice(&[$($word),*])
            }
        }
    };
}

pub(crate) use {choice, document};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_those_of_json() {
        assert_eq!(camel_case("service_ips"), "serviceIps");
        assert_eq!(camel_case("dns"), "dns");
        assert_eq!(doc_text(&[" One line.", " And another."]), "One line. And another.");
    }
}
