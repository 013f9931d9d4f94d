//! The client against scripted answers and against the embedded Azure, in virtual time and without sockets.

mod guard;
mod machines;
mod operations;
mod retries;
mod script;
mod tokens;
