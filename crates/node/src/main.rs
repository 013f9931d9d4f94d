//! kilnd: the node's daemon.

fn main() {}
