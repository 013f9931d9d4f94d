//! `kiln prototype` as users run it: the program against `kiln sim serve`, compared with golden files.
//!
//! `KILN_BLESS=1 cargo test -p kiln --test e2e_prototype` rewrites the files.

mod access;
mod connection;
mod failures;
mod golden;
mod nights;
mod options;
mod refresh;
mod rollback;
mod update;
mod world;
