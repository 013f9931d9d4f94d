//! `cargo xtask image`: compiles kiln and kilnd and builds the OCI image.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packaging::{Architecture, Content, Error, Image, Program, archive, build, revision, write_layout};

const HELP: &str = "\
Build the OCI image with the static programs kiln and kilnd

Usage: cargo xtask image [--out DIR] [--profile NAME] [--binary FILE] [--node-binary FILE]

  --out DIR           write DIR/oci (an OCI layout) and DIR/kiln.tar (for `docker load`) [default: target/image/out]
  --profile NAME      cargo profile of both programs [default: `release` for kiln, `kilnd` for kilnd]
  --binary FILE       use this static program as kiln instead of compiling it
  --node-binary FILE  use this static program as kilnd instead of compiling it

No container daemon is needed. The same sources produce the same digest.
";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    output: PathBuf,
    profile: Option<String>,
    binary: Option<PathBuf>,
    node_binary: Option<PathBuf>,
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
            eprintln!("error: {message}\nhint: run `cargo xtask image --help`");
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
    let mut options = Options { output: root.join("target/image/out"), profile: None, binary: None, node_binary: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !["--out", "--profile", "--binary", "--node-binary"].contains(&name) {
            return Err(format!("unknown argument `{word}`"));
        }
        let value = value.or_else(|| words.next().map(String::as_str)).ok_or(format!("`{name}` needs a value"))?;
        match name {
            "--out" => options.output = value.into(),
            "--profile" => options.profile = Some(value.to_owned()),
            "--binary" => options.binary = Some(value.into()),
            _ => options.node_binary = Some(value.into()),
        }
    }
    Ok(options)
}

fn make(root: &Path, options: &Options) -> Result<(), Error> {
    let architecture = Architecture::from_rust(std::env::consts::ARCH)?;
    let (binary, description) = program(root, options, Program::Kiln, architecture)?;
    let (node_binary, node_description) = program(root, options, Program::Kilnd, architecture)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let image = Image::new(&Content { binary, node_binary, architecture, version, revision: revision(root) })?;
    let layout = options.output.join("oci");
    write_layout(&image, &layout)?;
    let tar = options.output.join("kiln.tar");
    let bytes = archive(&image)?;
    std::fs::write(&tar, &bytes).map_err(|source| Error::File { path: tar.clone(), source })?;
    println!("binary   {description}");
    println!("kilnd    {node_description}");
    println!("layout   {}:{}", layout.display(), image.version);
    println!("archive  {} ({:.1} MiB)", tar.display(), mebibytes(bytes.len()));
    println!("digest   {}", image.manifest.digest);
    Ok(())
}

/// The bytes of a program, which is compiled unless a file is given, and a description for the output.
fn program(
    root: &Path,
    options: &Options,
    program: Program,
    architecture: Architecture,
) -> Result<(Vec<u8>, String), Error> {
    let given = match program {
        Program::Kiln => &options.binary,
        Program::Kilnd => &options.node_binary,
    };
    let (path, origin) = if let Some(path) = given {
        (path.clone(), "given".to_owned())
    } else {
        let profile = options.profile.as_deref().unwrap_or(program.profile());
        let built = build(root, program, profile, architecture)?;
        (built.path.clone(), built.description())
    };
    packaging::refuse_dynamic(&path)?;
    let bytes = std::fs::read(&path).map_err(|source| Error::File { path: path.clone(), source })?;
    let description = format!("{} ({:.1} MiB, {origin})", path.display(), mebibytes(bytes.len()));
    Ok((bytes, description))
}

#[expect(clippy::cast_precision_loss, reason = "displayed with one decimal")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(Path::new("/root"), &words)
    }

    #[test]
    fn default_output_is_in_the_target_folder() {
        let output = "/root/target/image/out".into();
        let expected = Options { output, profile: None, binary: None, node_binary: None };
        assert_eq!(parsed(""), Ok(expected));
    }

    #[test]
    fn values_follow_a_space_or_an_equals_sign() {
        assert_eq!(
            parsed("--out a --profile=dev --binary b --node-binary c"),
            parsed("--out=a --profile dev --binary=b --node-binary=c")
        );
        assert_eq!(parsed("--node-binary c").unwrap().node_binary.as_deref(), Some(Path::new("c")));
        assert_eq!(parsed("--out a").unwrap().output, Path::new("a"));
    }

    #[test]
    fn usage_errors_quote_the_wrong_argument() {
        for (line, word) in [("--otu a", "`--otu`"), ("--out", "`--out` needs"), ("a", "`a`")] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
