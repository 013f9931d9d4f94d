//! The prototype operation, decided purely.
