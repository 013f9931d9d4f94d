//! Disk formats. Each writer returns [`Piece`]s, so that two versions of an image can be compared, and only what changed be written or sent,
//! without reading the contents again.

#![expect(
    clippy::cast_possible_truncation,
    reason = "fields of the formats have fixed widths, and each writer checks the sizes that it accepts"
)]

pub mod ext4;
pub mod fat;
pub mod gpt;
mod piece;
pub mod qcow2;
mod tree;
pub mod vhd;

pub use piece::{Piece, Source};
pub use tree::{Attributes, Content, Device, Entry, Kind, Tree, TreeError};
