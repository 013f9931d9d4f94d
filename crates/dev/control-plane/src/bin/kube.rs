//! `cargo xtask kube`: control planes on loopback, for anyone.

use std::process::ExitCode;

use control_plane::{Options, Standing};

const HELP: &str = "\
Control planes of real Kubernetes on loopback.

usage: cargo xtask kube <command>

  up [--name NAME] [--scheduler]   start one, unless it stands, and print how to reach it
  down [--name NAME]               stop it and remove all of it
  list                             the names of those that stand

NAME is `default` unless given. State is in $XDG_STATE_HOME/kiln/kube (or ~/.local/state/kiln/kube).
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["up", ref rest @ ..] => match flags(rest, true) {
            Ok((name, options)) => Standing::of_user().and_then(|standing| standing.up(name, &options)).map(|path| {
                println!("export KUBECONFIG={}", path.display());
            }),
            Err(wrong) => return usage(&wrong),
        },
        ["down", ref rest @ ..] => match flags(rest, false) {
            Ok((name, _)) => Standing::of_user().and_then(|standing| standing.down(name)),
            Err(wrong) => return usage(&wrong),
        },
        ["list"] => Standing::of_user().and_then(|standing| standing.names()).map(|names| {
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
            "--name" => name = rest.next().ok_or("`--name` needs a name")?,
            "--scheduler" if up => options = options.with_scheduler(),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    Ok((name, options))
}

fn usage(wrong: &str) -> ExitCode {
    eprint!("error: {wrong}\n\n{HELP}");
    ExitCode::from(2)
}
