//! The client against scripted responses and against the embedded Azure, in virtual time and without sockets.

mod access;
mod canaries;
mod credentials;
mod embedded;
mod faults;
mod guard;
mod instances;
mod launch;
mod life;
mod machines;
mod operations;
mod original;
mod random;
mod recordings;
mod retries;
mod sanitised;
mod script;
mod socket;
mod stage;
mod tokens;
mod versions;
