//! Cases that are folders: one test of each, by its own name.

/// A test per folder, each run by the given function, and `LISTED`: all of the folders, to be held against what is there.
#[macro_export]
macro_rules! cases {
    ($check:ident: $($name:ident = $folder:literal),* $(,)?) => {
        const LISTED: &[&str] = &[$($folder),*];
        $(#[test]
        fn $name() {
            $check($folder);
        })*
    };
}
