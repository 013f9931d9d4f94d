//! The state folder under every verb: once, twice, killed at every change, and by several processes at once.

mod crash;
mod support;
mod together;
mod verbs;
