//! `cargo xtask package`: compiles kilnd, and puts it with its units into a Debian package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packaging::{Architecture, Deb, Entry, Error, Program, build, deb, refuse_dynamic};

const HELP: &str = "\
kilnd as a static program and as a Debian package with its units. The same sources make the same bytes.

usage: cargo xtask package [--output DIR] [--profile NAME]

  --output DIR    where both go; target/package without it
  --profile NAME  of cargo; `kilnd`, what is shipped, without it
";

/// Where systemd finds what packages bring.
const UNITS: &str = "usr/lib/systemd/system";

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
            ("--output", Some(value)) => output = value.into(),
            ("--profile", Some(value)) => profile.clone_from(value),
            _ => {
                eprint!("error: `{word}` is not an argument, or lacks its value\n\n{HELP}");
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
    let architecture = Architecture::of_rust(std::env::consts::ARCH)?;
    let built = build(root, Program::Kilnd, profile, architecture)?;
    refuse_dynamic(&built.path)?;
    let file = |path: &Path| fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source });
    let binary = file(&built.path)?;
    let size = binary.len();

    let mut files = vec![Entry { path: "usr/bin/kilnd".to_owned(), mode: 0o755, content: binary.clone() }];
    let licence = file(&root.join("LICENSE"))?;
    files.push(Entry { path: "usr/share/doc/kilnd/copyright".to_owned(), mode: 0o644, content: licence });
    let mut links = Vec::new();
    for path in tree(&root.join("units"))? {
        let content = file(&path)?;
        let name = path.strip_prefix(root.join("units")).unwrap_or(&path).display().to_string();
        links.extend(wanted_by(&name, &String::from_utf8_lossy(&content)));
        files.push(Entry { path: format!("{UNITS}/{name}"), mode: 0o644, content });
    }
    let package = Deb {
        name: "kilnd".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        architecture,
        description: "tells a Kubernetes node what to be, at first boot and in place later".to_owned(),
        files,
        links,
    };
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
    println!("binary   {} ({size} bytes, {})", program.display(), built.how());
    println!("package  {} ({} bytes)", archive.display(), bytes.len());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Every file below a folder, sorted.
fn tree(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(path) = open.pop() {
        let failed = |source| Error::File { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.is_dir() { open.push(entry) } else { files.push(entry) }
        }
    }
    files.sort();
    Ok(files)
}

/// The links that turn a unit on, as `systemctl enable` would make them: whoever installs the package wants its units, and a link of
/// the package needs no script.
fn wanted_by(name: &str, text: &str) -> Vec<(String, String)> {
    let values = text.lines().filter_map(|line| line.trim().strip_prefix("WantedBy="));
    values
        .flat_map(str::split_whitespace)
        .map(|target| (format!("{UNITS}/{target}.wants/{name}"), format!("../{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_turned_on_for_whoever_wants_it() {
        let links = wanted_by("a.service", "[Unit]\nAfter=x\n[Install]\nWantedBy=multi-user.target sysinit.target\n");
        let expected = [("multi-user.target", "../a.service"), ("sysinit.target", "../a.service")];
        let expected = expected.map(|(target, to)| (format!("{UNITS}/{target}.wants/a.service"), to.to_owned()));
        assert_eq!(links, expected);
        assert_eq!(wanted_by("kubelet.service.d/10-kiln.conf", "[Unit]\nAfter=x\n"), []);
    }

    #[test]
    fn every_unit_of_kiln_that_has_to_be_turned_on_is() {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        let mut links = Vec::new();
        for path in tree(&units).expect("the folder of units") {
            let name = path.strip_prefix(&units).expect("below").display().to_string();
            links.extend(
                wanted_by(&name, &fs::read_to_string(&path).expect("a unit")).into_iter().map(|(path, _)| path),
            );
        }
        let turned_on = [
            ("multi-user.target", "kiln-config.service"),
            ("multi-user.target", "kiln-configured.target"),
            ("sysinit.target", "kiln-identity.service"),
            ("multi-user.target", "kiln-watch.service"),
        ];
        assert_eq!(links, turned_on.map(|(target, unit)| format!("{UNITS}/{target}.wants/{unit}")));
    }
}
