//! `kiln bootstrap`, as a program: files in, bytes and sentences out.

mod errors;
mod explain;
mod fixture;
mod moved;
mod pages;
mod recorded;
mod render;
mod secrets;
