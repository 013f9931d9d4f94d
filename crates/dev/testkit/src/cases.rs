//! Test cases in folders.

/// Defines a test for each folder, which calls the given function, and `LISTED`, the list of the folders, to compare with the file system.
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
