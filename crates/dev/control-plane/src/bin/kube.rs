//! `cargo xtask kube`: control planes on loopback.

use std::process::ExitCode;

use control_plane::{NamedPlanes, Options};

const HELP: &str = "\
Real Kubernetes control planes on loopback.

usage: cargo xtask kube <command>

  up [--name NAME] [--scheduler]   start one if it does not run, and print its KUBECONFIG
  down [--name NAME]               stop it and remove its data
  list                             print the names of running control planes

NAME is `default` by default. State is in $XDG_STATE_HOME/kiln/kube (or ~/.local/state/kiln/kube).
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["up", ref rest @ ..] => match flags(rest, true) {
            Ok((name, options)) => NamedPlanes::of_user().and_then(|planes| planes.up(name, &options)).map(|path| {
                println!("export KUBECONFIG={}", path.display());
            }),
            Err(problem) => return usage(&problem),
        },
        ["down", ref rest @ ..] => match flags(rest, false) {
            Ok((name, _)) => NamedPlanes::of_user().and_then(|planes| planes.down(name)),
            Err(problem) => return usage(&problem),
        },
        ["list"] => NamedPlanes::of_user().and_then(|planes| planes.names()).map(|names| {
            for name in names {
                println!("{name}");
            }
        }),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => return usage("no command given"),
        [other, ..] => return usage(&format!("unknown command `{other}`")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn flags<'a>(rest: &[&'a str], up: bool) -> Result<(&'a str, Options), String> {
    let (mut name, mut options) = ("default", Options::default());
    let mut rest = rest.iter();
    while let Some(&flag) = rest.next() {
        match flag {
            "--name" => name = rest.next().ok_or("`--name` requires a value")?,
            "--scheduler" if up => options = options.with_scheduler(),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    Ok((name, options))
}

fn usage(problem: &str) -> ExitCode {
    eprint!("error: {problem}\n\n{HELP}");
    ExitCode::from(2)
}
