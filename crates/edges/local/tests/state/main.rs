//! The state folder under every operation: once, repeated, killed at every change, and from several processes at once.

mod crash;
mod support;
mod together;
mod verbs;
