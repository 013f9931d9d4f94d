//! Disk images as values: what each byte range of a disk contains, decided without reading or writing a file.

pub mod disk;
