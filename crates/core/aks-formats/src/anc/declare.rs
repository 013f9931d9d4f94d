//! Macros that declare messages and enumerations.

/// Declares a message by its fields with camel-case name and type.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $($field:ident $camel:literal: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($field), "`")] pub $field: $type,)*
        }

        impl $crate::anc::wire::Message for $name {
            fn field<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
                reading: &mut $crate::anc::wire::ReadState,
            ) -> Option<Result<(), A::Error>> {
                match Self::proto_name(name)? {
                    $(stringify!($field) => {
                        Some(map.next_value_seed($crate::anc::wire::Field(&mut self.$field, reading)))
                    })*
                    _ => None,
                }
            }

            fn proto_name(name: &str) -> Option<&'static str> {
                $(if name == stringify!($field) || name == $camel {
                    return Some(stringify!($field));
                })*
                None
            }
        }

        impl $crate::anc::wire::WireValue for $name {
            fn merge<'de, D: serde::Deserializer<'de>>(
                &mut self,
                from: D,
                reading: &mut $crate::anc::wire::ReadState,
            ) -> Result<(), D::Error> {
                from.deserialize_map($crate::anc::wire::Fields(self, reading))
            }

            fn is_unset(&self) -> bool {
                false
            }

            fn write<S: serde::Serializer>(&self, to: S, names: $crate::anc::wire::FieldNames) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                use $crate::anc::wire::{FieldNames, AsJson};
                let mut map = to.serialize_map(None)?;
                $(if !$crate::anc::wire::WireValue::is_unset(&self.$field) {
                    let name = match names {
                        FieldNames::Snake => stringify!($field),
                        FieldNames::Camel => $camel,
                    };
                    map.serialize_entry(name, &AsJson(&self.$field, names))?;
                })*
                map.end()
            }
        }
    };
}

/// Declares an enumeration by its values with number and name.
macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// An unknown number.
            Other(i32),
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_number(0)
            }
        }

        impl $name {
            /// Returns the protobuf number.
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// Returns the value for a protobuf number.
pub fn from_number(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl $crate::anc::wire::WireValue for $name {
            fn merge<'de, D: serde::Deserializer<'de>>(
                &mut self,
                from: D,
                reading: &mut $crate::anc::wire::ReadState,
            ) -> Result<(), D::Error> {
                *self = match $crate::anc::wire::integer(from)? {
                    Ok(number) => Self::from_number(number),
                    Err(text) => match text.as_str() {
                        $($text => Self::$variant,)*
                        // An unknown value is skipped like an unknown field.
                        _ => {
                            reading.ignored.push(reading.current_path());
                            return Ok(());
                        }
                    },
                };
                Ok(())
            }

            fn is_unset(&self) -> bool {
                self.number() == 0
            }

            fn write<S: serde::Serializer>(&self, to: S, _: $crate::anc::wire::FieldNames) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant => to.serialize_str($text),)*
                    Self::Other(number) => to.serialize_i32(*number),
                }
            }
        }
    };
}

pub(super) use {enumeration, message};
