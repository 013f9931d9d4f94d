//! `kiln local` with real machines: a sandbox, nodes with a real kubelet and containerd in it, and the prototype operation on them.

mod clones;
mod cloud_root;
mod cluster;
mod image;
mod inside;
mod machines;
mod push;
mod recipe;
mod root;
mod sandbox;
mod shell;
