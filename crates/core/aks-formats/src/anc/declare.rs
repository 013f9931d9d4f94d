//! Declarations of messages and enumerations.

/// A message: its fields with their names in camel case and their types.
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
                reading: &mut $crate::anc::wire::Reading,
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

        impl $crate::anc::wire::Slot for $name {
            fn merge<'de, D: serde::Deserializer<'de>>(
                &mut self,
                from: D,
                reading: &mut $crate::anc::wire::Reading,
            ) -> Result<(), D::Error> {
                from.deserialize_map($crate::anc::wire::Fields(self, reading))
            }

            fn is_unset(&self) -> bool {
                false
            }

            fn write<S: serde::Serializer>(&self, to: S, names: $crate::anc::wire::Names) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                use $crate::anc::wire::{Names, Written};
                let mut map = to.serialize_map(None)?;
                $(if !$crate::anc::wire::Slot::is_unset(&self.$field) {
                    let name = match names {
                        Names::Snake => stringify!($field),
                        Names::Camel => $camel,
                    };
                    map.serialize_entry(name, &Written(&self.$field, names))?;
                })*
                map.end()
            }
        }
    };
}

/// An enumeration: its values with their numbers and names.
macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// A number that this version does not know.
            Other(i32),
        }

        impl Default for $name {
            fn default() -> Self {
                Self::of_number(0)
            }
        }

        impl $name {
            /// The number on the wire.
            pub fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Other(number) => number,
                }
            }

            /// The value of a number.
            pub fn of_number(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl $crate::anc::wire::Slot for $name {
            fn merge<'de, D: serde::Deserializer<'de>>(
                &mut self,
                from: D,
                reading: &mut $crate::anc::wire::Reading,
            ) -> Result<(), D::Error> {
                *self = match $crate::anc::wire::whole(from)? {
                    Ok(number) => Self::of_number(number),
                    Err(text) => match text.as_str() {
                        $($text => Self::$variant,)*
                        // A newer producer's word, left out like a newer field.
                        _ => {
                            reading.ignored.push(reading.place());
                            return Ok(());
                        }
                    },
                };
                Ok(())
            }

            fn is_unset(&self) -> bool {
                self.number() == 0
            }

            fn write<S: serde::Serializer>(&self, to: S, _: $crate::anc::wire::Names) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant => to.serialize_str($text),)*
                    Self::Other(number) => to.serialize_i32(*number),
                }
            }
        }
    };
}

pub(super) use {enumeration, message};
