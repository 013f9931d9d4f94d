//! Tests of `kiln launch` as a process, against an embedded Azure in the test process.

mod families;
mod killed;
mod machines;
mod world;
