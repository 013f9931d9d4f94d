//! `cargo xtask package`: compiles kilnd and builds a Debian package and an RPM with its units.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use packaging::{Architecture, Error, Package, Program, build, deb, refuse_dynamic, rpm, rpm_file_name};

const HELP: &str = "\
Build kilnd as a static program, and as a Debian package and an RPM with its units

Usage: cargo xtask package [--out DIR] [--profile NAME]

  --out DIR       write the program and the packages to DIR [default: target/package]
  --profile NAME  cargo profile [default: kilnd]

The same sources produce the same bytes.
";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new(".")).to_path_buf();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let (mut output, mut profile) = (root.join("target/package"), Program::Kilnd.profile().to_owned());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--out", Some(value)) => output = value.into(),
            ("--profile", Some(value)) => profile.clone_from(value),
            _ => {
                eprintln!(
                    "error: unknown argument `{word}`, or its value is missing\nhint: run `cargo xtask package --help`"
                );
                return ExitCode::from(2);
            }
        }
    }
    match make(&root, &output, &profile) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(root: &Path, output: &Path, profile: &str) -> Result<(), Error> {
    let architecture = Architecture::from_rust(std::env::consts::ARCH)?;
    let built = build(root, Program::Kilnd, profile, architecture)?;
    refuse_dynamic(&built.path)?;
    let binary = fs::read(&built.path).map_err(|source| Error::File { path: built.path.clone(), source })?;
    let size = binary.len();
    let package = Package::kilnd(root, binary.clone(), env!("CARGO_PKG_VERSION"), architecture)?;
    let bytes = deb(&package)?;
    fs::create_dir_all(output).map_err(|source| Error::File { path: output.to_owned(), source })?;
    let program = output.join("kilnd");
    write(&program, &binary)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::set_permissions(&program, fs::Permissions::from_mode(0o755));
        mode.map_err(|source| Error::File { path: program.clone(), source })?;
    }
    let archive = output.join(format!("kilnd_{}_{}.deb", package.version, architecture.name()));
    write(&archive, &bytes)?;
    println!("binary   {} ({size} bytes, {})", program.display(), built.description());
    println!("package  {} ({} bytes)", archive.display(), bytes.len());
    let (archive, bytes) = (output.join(rpm_file_name(&package)), rpm(&package)?);
    write(&archive, &bytes)?;
    println!("package  {} ({} bytes)", archive.display(), bytes.len());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}
