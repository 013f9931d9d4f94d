//! Protobuf JSON as the node controller reads it: fields by either name, enumerations by name or number, unknown fields skipped, `null`
//! as unset, and fields before an error kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::Secret;

/// Current path of the parser, and the paths it skipped.
#[derive(Debug, Default)]
pub(super) struct ReadState {
    pub(super) path: Vec<String>,
    pub(super) ignored: Vec<String>,
}

impl ReadState {
    pub(super) fn current_path(&self) -> String {
        self.path.join(".")
    }
}

/// Naming convention of serialized fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldNames {
    /// `vm_type`, for the configuration.
    Snake,
    /// `vmType`, for the kubelet's file.
    Camel,
}

/// Type of a field's value.
pub(super) trait WireValue: Default {
    /// Parses into the value. Parts that were parsed before an error are kept.
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, reading: &mut ReadState) -> Result<(), D::Error>;
    /// Whether the value is omitted from the output.
    fn is_unset(&self) -> bool;
    /// Serializes the value.
    fn write<S: Serializer>(&self, to: S, names: FieldNames) -> Result<S::Ok, S::Error>;
}

/// Parses a field that may be `null`.
pub(super) struct Field<'a, T>(pub(super) &'a mut T, pub(super) &'a mut ReadState);

impl<'de, T: WireValue> DeserializeSeed<'de> for Field<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de, T: WireValue> Visitor<'de> for Field<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.0.merge(from, self.1)
    }
}

/// Serializes a value with a naming convention.
pub(super) struct AsJson<'a, T>(pub(super) &'a T, pub(super) FieldNames);

impl<T: WireValue> Serialize for AsJson<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to, self.1)
    }
}

/// A JSON scalar. Errors contain its type but never its value, which may be secret.
enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Scalar {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Int(value))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Scalar, E> {
                i64::try_from(value).map(Scalar::Int).map_err(|_| E::custom("the number exceeds 64 bits"))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }
        }
        from.deserialize_any(Any)
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
        }
    }

    fn type_error<E: serde::de::Error>(&self, expected: &str) -> E {
        E::custom(format_args!("expected {expected}, found {}", self.kind()))
    }
}

impl WireValue for String {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, _: &mut ReadState) -> Result<(), D::Error> {
        match Scalar::read(from)? {
            Scalar::Text(text) => *self = text,
            other => return Err(other.type_error("a string")),
        }
        Ok(())
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, to: S, _: FieldNames) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl WireValue for Secret {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, reading: &mut ReadState) -> Result<(), D::Error> {
        let mut text = String::new();
        text.merge(from, reading)?;
        *self = Self::new(text);
        Ok(())
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, to: S, _: FieldNames) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.expose())
    }
}

impl WireValue for bool {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, _: &mut ReadState) -> Result<(), D::Error> {
        match Scalar::read(from)? {
            Scalar::Bool(value) => *self = value,
            other => return Err(other.type_error("a boolean")),
        }
        Ok(())
    }

    fn is_unset(&self) -> bool {
        !*self
    }

    fn write<S: Serializer>(&self, to: S, _: FieldNames) -> Result<S::Ok, S::Error> {
        to.serialize_bool(*self)
    }
}

/// Parses an integer that may have a zero fraction, an exponent or quotes. Other text is returned as `Err`.
pub(super) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<Result<i32, String>, D::Error> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked, and the fraction is zero")]
    let exact = |value: f64| {
        (value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value)).then_some(value as i32)
    };
    let number = match Scalar::read(from)? {
        Scalar::Int(value) => i32::try_from(value).ok(),
        Scalar::Float(value) => exact(value),
        Scalar::Text(text) => match text.parse::<f64>().ok().and_then(exact) {
            Some(number) => Some(number),
            None => return Ok(Err(text)),
        },
        other @ Scalar::Bool(_) => return Err(other.type_error("an integer")),
    };
    number.map(Ok).ok_or_else(|| D::Error::custom("expected a 32-bit integer"))
}

impl WireValue for i32 {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, _: &mut ReadState) -> Result<(), D::Error> {
        *self = integer(from)?.map_err(|_| D::Error::custom("expected an integer, found a string"))?;
        Ok(())
    }

    fn is_unset(&self) -> bool {
        *self == 0
    }

    fn write<S: Serializer>(&self, to: S, _: FieldNames) -> Result<S::Ok, S::Error> {
        to.serialize_i32(*self)
    }
}

impl WireValue for f64 {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, _: &mut ReadState) -> Result<(), D::Error> {
        #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
        let number = match Scalar::read(from)? {
            Scalar::Int(value) => Some(value as Self),
            Scalar::Float(value) => Some(value),
            Scalar::Text(text) => text.parse().ok(),
            other @ Scalar::Bool(_) => return Err(other.type_error("a number")),
        };
        // JSON cannot represent NaN and infinity.
        *self =
            number.filter(|number: &Self| number.is_finite()).ok_or_else(|| D::Error::custom("expected a number"))?;
        Ok(())
    }

    fn is_unset(&self) -> bool {
        *self == 0.0
    }

    fn write<S: Serializer>(&self, to: S, _: FieldNames) -> Result<S::Ok, S::Error> {
        // protojson prints `10`, not `10.0`.
        #[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53")]
        if self.fract() == 0.0 && self.abs() < 9e15 {
            return to.serialize_i64(*self as i64);
        }
        to.serialize_f64(*self)
    }
}

impl<T: WireValue> WireValue for Option<T> {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, reading: &mut ReadState) -> Result<(), D::Error> {
        self.get_or_insert_default().merge(from, reading)
    }

    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn write<S: Serializer>(&self, to: S, names: FieldNames) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(to, names),
            None => to.serialize_none(),
        }
    }
}

impl<T: WireValue> WireValue for Vec<T> {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, reading: &mut ReadState) -> Result<(), D::Error> {
        struct List<'a, T>(&'a mut Vec<T>, &'a mut ReadState);
        impl<'de, T: WireValue> Visitor<'de> for List<'_, T> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
                loop {
                    let mut element = T::default();
                    if list.next_element_seed(Field(&mut element, self.1))?.is_none() {
                        return Ok(());
                    }
                    self.0.push(element);
                }
            }
        }
        from.deserialize_seq(List(self, reading))
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, to: S, names: FieldNames) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.len()))?;
        for element in self {
            list.serialize_element(&AsJson(element, names))?;
        }
        list.end()
    }
}

impl<T: WireValue> WireValue for BTreeMap<String, T> {
    fn merge<'de, D: Deserializer<'de>>(&mut self, from: D, reading: &mut ReadState) -> Result<(), D::Error> {
        struct Entries<'a, T>(&'a mut BTreeMap<String, T>, &'a mut ReadState);
        impl<'de, T: WireValue> Visitor<'de> for Entries<'_, T> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(key) = map.next_key::<String>()? {
                    self.1.path.push(key.clone());
                    map.next_value_seed(Field(self.0.entry(key).or_default(), self.1))?;
                    self.1.path.pop();
                }
                Ok(())
            }
        }
        from.deserialize_map(Entries(self, reading))
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn write<S: Serializer>(&self, to: S, names: FieldNames) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            map.serialize_entry(key, &AsJson(value, names))?;
        }
        map.end()
    }
}

/// A protobuf message.
pub(super) trait Message {
    /// Parses the field with this name. Returns `None` if it does not exist.
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        reading: &mut ReadState,
    ) -> Option<Result<(), A::Error>>;
    /// Returns the proto name of a field.
    fn proto_name(name: &str) -> Option<&'static str>;
}

/// Parses a message field by field.
pub(super) struct Fields<'a, M>(pub(super) &'a mut M, pub(super) &'a mut ReadState);

impl<'de, M: Message> Visitor<'de> for Fields<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if let Some(proto) = M::proto_name(&name) {
                self.1.path.push(proto.to_owned());
                if seen.contains(&proto) {
                    return Err(A::Error::custom("duplicate field"));
                }
                seen.push(proto);
            } else {
                self.1.path.push(name.clone());
            }
            if let Some(read) = self.0.field(&name, &mut map, self.1) {
                read?;
            } else {
                self.1.ignored.push(self.1.current_path());
                map.next_value::<IgnoredAny>()?;
            }
            self.1.path.pop();
        }
        Ok(())
    }
}
