//! Tests of `kiln bootstrap` as a process.

mod drift;
mod errors;
mod explain;
mod fixture;
mod karpenter;
mod pages;
mod recordings;
mod render;
mod secrets;
mod sign;
