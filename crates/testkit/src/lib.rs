//! Real parts for tests.

pub mod openapi;
