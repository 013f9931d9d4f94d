//! `cargo xtask package`: compiles kilnd and builds a Debian package with its units.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use packaging::{Architecture, Deb, Entry, Error, Program, build, deb, refuse_dynamic};

const HELP: &str = "\
Build kilnd as a static program and as a Debian package with its units

Usage: cargo xtask package [--out DIR] [--profile NAME]

  --out DIR       write the program and the package to DIR [default: target/package]
  --profile NAME  cargo profile [default: kilnd]

The same sources produce the same bytes.
";

/// systemd's folder for units of packages.
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
        description: "configures a Kubernetes node at first boot and in place later".to_owned(),
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
    println!("binary   {} ({size} bytes, {})", program.display(), built.description());
    println!("package  {} ({} bytes)", archive.display(), bytes.len());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// All files below a folder, sorted.
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

/// The links with which `systemctl enable` would enable a unit. The package contains them, so that it needs no script.
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
    fn unit_is_enabled_for_each_target_that_wants_it() {
        let links = wanted_by("a.service", "[Unit]\nAfter=x\n[Install]\nWantedBy=multi-user.target sysinit.target\n");
        let expected = [("multi-user.target", "../a.service"), ("sysinit.target", "../a.service")];
        let expected = expected.map(|(target, to)| (format!("{UNITS}/{target}.wants/a.service"), to.to_owned()));
        assert_eq!(links, expected);
        assert_eq!(wanted_by("kubelet.service.d/zz-kiln.conf", "[Unit]\nAfter=x\n"), []);
    }

    #[test]
    fn units_of_kiln_are_enabled() {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        let mut links = Vec::new();
        for path in tree(&units).expect("the folder of units") {
            let name = path.strip_prefix(&units).expect("below").display().to_string();
            links.extend(
                wanted_by(&name, &fs::read_to_string(&path).expect("a unit")).into_iter().map(|(path, _)| path),
            );
        }
        let enabled = [
            ("multi-user.target", "kiln-config.service"),
            ("multi-user.target", "kiln-configured.target"),
            ("sysinit.target", "kiln-identity.service"),
            ("multi-user.target", "kiln-watch.service"),
        ];
        assert_eq!(links, enabled.map(|(target, unit)| format!("{UNITS}/{target}.wants/{unit}")));
    }
}
