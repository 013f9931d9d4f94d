//! The size of a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Processors and MiB of memory, written as `2x2048`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    pub cores: u32,
    pub memory_mib: u32,
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |digits: &str| digits.parse().ok().filter(|number: &u32| *number > 0 && !digits.starts_with('+'));
        let read = || {
            let (cores, memory) = text.split_once('x')?;
            Some(Self { cores: number(cores)?, memory_mib: number(memory)? })
        };
        let rule = "processors and MiB of memory, such as `2x2048`";
        read().ok_or_else(|| Error::Invalid { noun: "machine size", text: text.to_owned(), rule })
    }
}

impl TryFrom<String> for Size {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.cores, self.memory_mib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_processors_and_memory() {
        assert_eq!("2x2048".parse::<Size>().unwrap(), Size { cores: 2, memory_mib: 2048 });
        for bad in ["", "2", "x", "0x1", "1x0", "+1x1", "Standard_D2s_v3"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
