//! Disk images, judged by the tools of other projects and by the kernel.

#![expect(clippy::cast_possible_truncation, reason = "the disks of tests are small")]

mod ext4;
mod formats;
mod image;
