//! `cargo xtask image`: compiles the two static binaries and puts them into an image.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use packaging::{Architecture, Content, Error, Image, Program, archive, build, write_layout};

const HELP: &str = "\
An OCI image of two static binaries, kiln and the node's kilnd, made without a daemon. The same sources make the same digest.

usage: cargo xtask image [--output DIR] [--profile NAME] [--binary FILE] [--node-binary FILE]

  --output DIR        where the image goes: DIR/oci (a layout) and DIR/kiln.tar (for `docker load`); target/image/out without it
  --profile NAME      of cargo, for both; `dist` and `kilnd`, what is shipped, without it
  --binary FILE       take this static program for kiln instead of compiling one
  --node-binary FILE  take this static program for kilnd instead of compiling one
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
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
    let asked = match parse(&root, &arguments) {
        Ok(asked) => asked,
        Err(message) => {
            eprint!("error: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match make(&root, &asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(root: &Path, arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { output: root.join("target/image/out"), profile: None, binary: None, node_binary: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if !["--output", "--profile", "--binary", "--node-binary"].contains(&name) {
            return Err(format!("unknown argument `{word}`"));
        }
        let value = value.or_else(|| words.next().map(String::as_str)).ok_or(format!("`{name}` needs a value"))?;
        match name {
            "--output" => asked.output = value.into(),
            "--profile" => asked.profile = Some(value.to_owned()),
            "--binary" => asked.binary = Some(value.into()),
            _ => asked.node_binary = Some(value.into()),
        }
    }
    Ok(asked)
}

fn make(root: &Path, asked: &Asked) -> Result<(), Error> {
    let architecture = Architecture::of_rust(std::env::consts::ARCH)?;
    let (binary, told) = program(root, asked, Program::Kiln, architecture)?;
    let (node_binary, node_told) = program(root, asked, Program::Kilnd, architecture)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let image = Image::new(&Content { binary, node_binary, architecture, version, revision: revision(root) })?;
    let layout = asked.output.join("oci");
    write_layout(&image, &layout)?;
    let tar = asked.output.join("kiln.tar");
    let bytes = archive(&image)?;
    std::fs::write(&tar, &bytes).map_err(|source| Error::File { path: tar.clone(), source })?;
    println!("binary   {told}");
    println!("kilnd    {node_told}");
    println!("layout   {}:{}", layout.display(), image.version);
    println!("archive  {} ({:.1} MiB)", tar.display(), mebibytes(bytes.len()));
    println!("digest   {}", image.manifest.digest);
    Ok(())
}

/// The bytes of a program, given or compiled, and a line about them.
fn program(
    root: &Path,
    asked: &Asked,
    program: Program,
    architecture: Architecture,
) -> Result<(Vec<u8>, String), Error> {
    let given = match program {
        Program::Kiln => &asked.binary,
        Program::Kilnd => &asked.node_binary,
    };
    let (path, how) = if let Some(path) = given {
        (path.clone(), "given".to_owned())
    } else {
        let profile = asked.profile.as_deref().unwrap_or(program.profile());
        let built = build(root, program, profile, architecture)?;
        (built.path.clone(), built.how())
    };
    packaging::refuse_dynamic(&path)?;
    let bytes = std::fs::read(&path).map_err(|source| Error::File { path: path.clone(), source })?;
    let told = format!("{} ({:.1} MiB, {how})", path.display(), mebibytes(bytes.len()));
    Ok((bytes, told))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The commit, if everything that is compiled is in it: a label must not name sources that are not these.
fn revision(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--", "Cargo.toml", "Cargo.lock", "crates"])?;
    if changed.is_empty() { git(&["rev-parse", "HEAD"]) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(Path::new("/root"), &words)
    }

    #[test]
    fn without_arguments_the_shipped_profile_goes_to_the_target_folder() {
        let output = "/root/target/image/out".into();
        let expected = Asked { output, profile: None, binary: None, node_binary: None };
        assert_eq!(asked(""), Ok(expected));
    }

    #[test]
    fn values_come_after_a_space_or_an_equals_sign() {
        assert_eq!(
            asked("--output a --profile=dev --binary b --node-binary c"),
            asked("--output=a --profile dev --binary=b --node-binary=c")
        );
        assert_eq!(asked("--node-binary c").unwrap().node_binary.as_deref(), Some(Path::new("c")));
        assert_eq!(asked("--output a").unwrap().output, Path::new("a"));
    }

    #[test]
    fn wrong_usage_is_answered_with_the_word_that_is_wrong() {
        for (line, word) in [("--ouput a", "`--ouput`"), ("--output", "`--output` needs"), ("a", "`a`")] {
            assert!(asked(line).unwrap_err().contains(word), "{line}");
        }
    }
}
