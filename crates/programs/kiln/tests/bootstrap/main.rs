//! `kiln bootstrap`, as a program: files in, bytes and sentences out.

mod errors;
mod explain;
mod fixture;
mod karpenter;
mod moved;
mod pages;
mod recordings;
mod render;
mod secrets;
