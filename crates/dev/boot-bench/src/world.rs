//! What is around a machine: tools, a namespace with the cloud's address, and a metadata service in it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testkit::nspawn::{Request, Response, Server};

use crate::Error;
use crate::variant::DOCUMENT;

/// The address of the metadata service, inside the lab's own network alone.
const METADATA: &str = "169.254.169.254:80";

/// The programs that make and boot machines: a Debian of their own, entered for each.
pub(crate) struct Tools {
    root: PathBuf,
}

impl Tools {
    /// Prepares them to be entered. `work` is `/mnt` there. The mounts are of this namespace and end with it.
    pub(crate) fn enter(root: &Path, work: &Path) -> Result<Self, Error> {
        for (kind, from, to) in
            [("--bind", work, "mnt"), ("--bind", Path::new("/dev"), "dev"), ("-tproc", Path::new("proc"), "proc")]
        {
            finished(Command::new("mount").arg(kind).arg(from).arg(root.join(to)))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    /// What they have at a path of the work folder.
    pub(crate) fn see(&self, path: &Path) -> PathBuf {
        self.root.join("mnt").join(path)
    }

    /// A command of theirs, in `/mnt`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(["/usr/bin/env", "--chdir=/mnt", program]).stdin(Stdio::null());
        command
    }
}

/// Gives the namespace its loopback device and the cloud's address, and serves there. `root` is a Debian that has `ip`.
pub(crate) fn metadata(root: &Path) -> Result<Server, Error> {
    for words in ["link set lo up", "address add 169.254.169.254/32 dev lo"] {
        finished(Command::new("chroot").arg(root).arg("/sbin/ip").args(words.split(' ')))?;
    }
    let failed = |source| Error::Command { line: format!("listen on {METADATA}"), source };
    let listener = TcpListener::bind(METADATA).map_err(failed)?;
    Ok(Server::start(listener, answer))
}

fn answer(request: &Request) -> Response {
    if request.header("metadata") != Some("true") {
        return Response::status(400);
    }
    match request.target.split('?').next() {
        Some("/metadata/instance/compute/userData") => Response::text(STANDARD.encode(DOCUMENT)),
        Some("/metadata/instance") => {
            let document = STANDARD.encode(DOCUMENT);
            let os = serde_json::json!({ "adminUsername": "azureuser", "computerName": "bench-node-0" });
            let compute = serde_json::json!({ "name": "bench-node-0", "osProfile": os, "userData": document });
            Response::json(serde_json::json!({ "compute": compute }).to_string())
        }
        _ => Response::status(404),
    }
}

/// Runs a command to its end; what it printed is shown when it failed.
pub(crate) fn finished(command: &mut Command) -> Result<(), Error> {
    let line = shown(command);
    let output = command.output().map_err(|source| Error::Command { line: line.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::Exit { line, status: output.status.to_string(), output: tail(&String::from_utf8_lossy(&text), 20) })
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The last lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Makes a folder and everything above it.
pub(crate) fn folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::file(path))
}
