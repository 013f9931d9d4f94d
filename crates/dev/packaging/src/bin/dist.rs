//! `cargo xtask dist`: makes the files of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packaging::dist::documents::Documents;
use packaging::dist::{CHECKSUMS, Inputs, Programs, files, sbom};
use packaging::{Architecture, Error, Program, build_musl, refuse_dynamic, revision};

const HELP: &str = "\
Make all files of a release

Usage: cargo xtask dist [--out DIR] [--arch NAME]... [--profile NAME] [--programs DIR]

  --out DIR       write the files to DIR, which must be empty or a previous release [default: target/dist]
  --arch NAME     only this architecture, `amd64` or `arm64` (repeatable) [default: both]
  --profile NAME  cargo profile of both programs [default: `release` for kiln, `kilnd` for kilnd]
  --programs DIR  use DIR/ARCH/kiln and DIR/ARCH/kilnd instead of compiling them

Static programs for musl, the Debian package and the RPM of kilnd, OCI images, the packaged chart, completions, manual pages, an SBOM in the
format of CycloneDX, and SHA256SUMS. The same sources produce the same bytes. arm64 needs `cargo xtask setup cross-compiler`.
";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    output: PathBuf,
    architectures: Vec<Architecture>,
    profile: Option<String>,
    programs: Option<PathBuf>,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap_or(Path::new(".")).to_path_buf();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match parse(&root, &arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}\nhint: run `cargo xtask dist --help`");
            return ExitCode::from(2);
        }
    };
    match make(&root, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(root: &Path, arguments: &[String]) -> Result<Options, String> {
    let mut options =
        Options { output: root.join("target/dist"), architectures: Vec::new(), profile: None, programs: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !["--out", "--arch", "--profile", "--programs"].contains(&name) {
            return Err(format!("unknown argument `{word}`"));
        }
        let value = value.or_else(|| words.next().map(String::as_str)).ok_or(format!("`{name}` needs a value"))?;
        match name {
            "--out" => options.output = value.into(),
            "--arch" => options.architectures.push(match value {
                "amd64" => Architecture::Amd64,
                "arm64" => Architecture::Arm64,
                other => return Err(format!("unsupported architecture `{other}`; expected `amd64` or `arm64`")),
            }),
            "--profile" => options.profile = Some(value.to_owned()),
            _ => options.programs = Some(value.into()),
        }
    }
    if options.architectures.is_empty() {
        options.architectures = vec![Architecture::Amd64, Architecture::Arm64];
    }
    Ok(options)
}

fn make(root: &Path, options: &Options) -> Result<(), Error> {
    clear(&options.output)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let (mut programs, mut runnable) = (Vec::new(), None);
    for &architecture in &options.architectures {
        let [kiln, kilnd] = [Program::Kiln, Program::Kilnd].map(|one| program(root, options, one, architecture));
        let (kiln, kilnd) = (kiln?, kilnd?);
        programs.push(Programs { architecture, kiln: read(&kiln)?, kilnd: read(&kilnd)? });
        if architecture.rust() == std::env::consts::ARCH {
            runnable = Some((kiln, kilnd));
        }
    }
    // Completions and manual pages are the same for every architecture.
    let (kiln, kilnd) = if let Some(paths) = runnable {
        paths
    } else {
        let own = Architecture::from_rust(std::env::consts::ARCH)?;
        (program(root, options, Program::Kiln, own)?, program(root, options, Program::Kilnd, own)?)
    };
    let scratch = options.output.join("man");
    fs::create_dir_all(&scratch).map_err(|source| Error::File { path: scratch.clone(), source })?;
    let documents = Documents::collect(&kiln, &kilnd, &version, &scratch);
    fs::remove_dir_all(&scratch).map_err(|source| Error::File { path: scratch, source })?;
    let sbom = sbom::of_workspace(root, &options.architectures, &version)?;
    let inputs = Inputs { version, revision: revision(root), programs, documents: documents?, sbom };
    for file in files(root, &inputs)? {
        let path = options.output.join(&file.name);
        fs::write(&path, &file.bytes).map_err(|source| Error::File { path: path.clone(), source })?;
        if file.is_executable {
            use std::os::unix::fs::PermissionsExt as _;
            let changed = fs::set_permissions(&path, fs::Permissions::from_mode(0o755));
            changed.map_err(|source| Error::File { path: path.clone(), source })?;
        }
        println!("{:>10}  {}", file.bytes.len(), path.display());
    }
    Ok(())
}

/// Removes the files of a previous release, so that none of them survives under an old name.
fn clear(folder: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut entries = fs::read_dir(folder).map_err(failed)?.peekable();
    if entries.peek().is_none() {
        return Ok(());
    }
    if !folder.join(CHECKSUMS).is_file() {
        return Err(Error::NotARelease(folder.to_owned()));
    }
    for entry in entries {
        fs::remove_file(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok(())
}

fn program(root: &Path, options: &Options, program: Program, architecture: Architecture) -> Result<PathBuf, Error> {
    if let Some(folder) = &options.programs {
        return Ok(folder.join(architecture.name()).join(program.name()));
    }
    let profile = options.profile.as_deref().unwrap_or(program.profile());
    let built = build_musl(root, program, profile, architecture)?;
    refuse_dynamic(&built.path)?;
    Ok(built.path)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(Path::new("/root"), &words)
    }

    #[test]
    fn both_architectures_are_the_default() {
        let options = parsed("").expect("valid");
        assert_eq!(options.architectures, [Architecture::Amd64, Architecture::Arm64]);
        assert_eq!(options.output, Path::new("/root/target/dist"));
        assert_eq!(parsed("--arch arm64").expect("valid").architectures, [Architecture::Arm64]);
    }

    #[test]
    fn usage_errors_quote_the_wrong_argument() {
        for (line, word) in [("--otu a", "`--otu`"), ("--out", "`--out` needs"), ("--arch riscv64", "`riscv64`")] {
            assert!(parsed(line).expect_err(line).contains(word), "{line}");
        }
    }

    #[test]
    fn folder_with_other_files_is_not_cleared() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("thesis.txt");
        fs::write(&file, "").expect("written");
        assert!(matches!(clear(folder.path()), Err(Error::NotARelease(_))));
        assert!(file.exists());
        fs::write(folder.path().join(CHECKSUMS), "").expect("written");
        clear(folder.path()).expect("cleared");
        assert!(!file.exists());
    }
}
