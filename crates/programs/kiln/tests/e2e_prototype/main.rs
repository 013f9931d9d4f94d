//! `kiln prototype` as its users run it: the built program against `kiln sim serve`, compared with golden files.
//!
//! `KILN_BLESS=1 cargo test -p kiln --test e2e_prototype` writes the files anew.

mod access;
mod back;
mod golden;
mod nights;
mod place;
mod refresh;
mod trouble;
mod update;
mod world;
