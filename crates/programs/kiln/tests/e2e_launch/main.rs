//! `kiln launch` as a process, against an embedded Azure that this process serves.

mod families;
mod killed;
mod machines;
mod world;
