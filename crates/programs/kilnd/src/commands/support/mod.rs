//! `kilnd support`: collects what is needed to analyse a problem of this node into one tar file, without secrets.
//!
//! Everything passes the [`Redactor`]; files that are secrets as a whole are not collected. The size of each file and of the whole is
//! bounded. What could not be collected is listed with the reason in `index.json`.

mod tar;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_boot_analysis::capture::UNIT_PROPERTIES;
use kiln_node_plan::check_image::UnitFile;
use kiln_node_plan::layout::{
    ANCESTRY, BOOT, CURRENT, DOCUMENT, IMAGE, KUBELET_CONFIG, KUBELET_ENV, KUBELET_UNIT, MANIFEST, NODE_STATE,
    REGISTER_ENV, RUNTIME_CONFIG, RUNTIME_ENV, RUNTIME_UNIT, SETTINGS, STATE, STATUS,
};
use serde_json::{Value, json};

use crate::apply::candidate::Candidate;
use crate::apply::{self, load_state};
use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED, check_image, plan};
use crate::log::error_line;
use crate::node::Node;
use crate::os::{Generations, clock};
use crate::redact::Redactor;
use tar::Tar;

/// The version of `index.json`.
const SCHEMA: u32 = 1;
/// The folder in the tar file.
const FOLDER: &str = "kilnd-support";
/// The largest file. Of a longer journal the end is kept, of other files the beginning.
const LARGEST: usize = 2 << 20;
/// The largest sum of all files.
const TOTAL: usize = 24 << 20;
/// Lines of each unit's journal.
const LINES: &str = "--lines=4000";
/// Units whose files and journals are collected.
const UNITS: [&str; 7] = [
    "kiln-identity.service",
    "kiln-config.service",
    "kiln-watch.service",
    "kiln-boot-loader.service",
    "kiln-configured.target",
    KUBELET_UNIT,
    RUNTIME_UNIT,
];
/// Files of kilnd without secrets: name in the tar file, and path.
const FILES: [(&str, &str); 10] = [
    ("status.json", STATUS),
    ("state.json", STATE),
    ("boot.json", BOOT),
    ("failure.json", "/run/kiln/failure.json"),
    ("requests.json", "/var/lib/kiln/requests.json"),
    ("node-state.json", NODE_STATE),
    ("ancestry.log", ANCESTRY),
    ("settings.json", SETTINGS),
    ("image.json", IMAGE),
    ("os-release", "/etc/os-release"),
];
/// Files of the generation in force. Its credentials are not among them.
const RENDERED: [&str; 6] =
    [KUBELET_CONFIG, KUBELET_ENV, REGISTER_ENV, RUNTIME_CONFIG, RUNTIME_ENV, "credential-providers.json"];

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum SupportError {
    #[error("`{}` already exists\nhint: name a new file with `--out`", .0.display())]
    Exists(PathBuf),
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// `kilnd support`.
pub fn run(node: &Node, out: &Path, output: Output) -> CommandResult {
    let bundle = Bundle::collect(node);
    let (files, missing) = (bundle.index.len(), bundle.missing.clone());
    let bytes = bundle.finish();
    if let Err(error) = write(out, &bytes) {
        node.log.report(&error);
        return CommandResult { code: FAILED, text: String::new() };
    }
    let text = match output {
        Output::Json => format!("{}\n", json!({"out": out, "bytes": bytes.len(), "files": files, "missing": missing})),
        Output::Text => {
            let mut text = format!("{}: {files} files, {} bytes\n", out.display(), bytes.len());
            for (name, why) in &missing {
                _ = writeln!(text, "not included: {name}: {why}");
            }
            text
        }
    };
    CommandResult { code: DONE, text }
}

/// Creates the file. It must not exist: a link in a public folder could lead anywhere.
fn write(out: &Path, bytes: &[u8]) -> Result<(), SupportError> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => SupportError::Exists(out.to_owned()),
        _ => SupportError::Write { path: out.to_owned(), source },
    };
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(out).map_err(failed)?;
    file.write_all(bytes).map_err(|error| {
        // A partial bundle is not useful.
        let _ = std::fs::remove_file(out);
        failed(error)
    })
}

struct Bundle {
    redactor: Redactor,
    tar: Tar,
    time: u64,
    total: usize,
    index: Vec<Value>,
    missing: Vec<(String, String)>,
}

/// Which end of a long text is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Start,
    End,
}

impl Bundle {
    fn collect(node: &Node) -> Self {
        let mut bundle = Self {
            redactor: Redactor::of_node(node),
            tar: Tar::default(),
            time: clock::wall().as_secs(),
            total: 0,
            index: Vec::new(),
            missing: Vec::new(),
        };
        bundle.add_versions(node);
        for (name, path) in FILES {
            bundle.add_file(node, name, path);
        }
        bundle.add_generations(node);
        bundle.add_plan(node);
        let report = check_image::report(node);
        bundle.add("check-image.txt", &report.to_text(), Keep::Start);
        bundle.add("check-image.json", &report.to_json(), Keep::Start);
        bundle.add_units(node);
        bundle.add_boot(node);
        for unit in UNITS {
            bundle.add_journal(node, unit);
        }
        bundle
    }

    fn finish(mut self) -> Vec<u8> {
        let missing: Vec<Value> =
            self.missing.iter().map(|(name, why)| json!({"name": name, "why": self.redactor.line(why)})).collect();
        let index = json!({"schema": SCHEMA, "files": self.index, "missing": missing});
        self.tar.add(&format!("{FOLDER}/index.json"), format!("{index:#}\n").as_bytes(), self.time);
        self.tar.finish()
    }

    /// Adds a text without its secrets. A JSON text is treated field by field.
    fn add(&mut self, name: &str, text: &str, keep: Keep) {
        // By content and not by name: in escaped text the patterns find less.
        let parsed = serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array());
        let clean = match parsed {
            Some(mut value) => {
                self.redactor.json(&mut value);
                format!("{value:#}\n")
            }
            None => self.redactor.text(text),
        };
        let limit = LARGEST.min(TOTAL.saturating_sub(self.total));
        let kept = cut(&clean, limit, keep);
        self.total += kept.len();
        self.index.push(json!({"name": name, "bytes": kept.len(), "isTruncated": kept.len() < clean.len()}));
        self.tar.add(&format!("{FOLDER}/{name}"), kept.as_bytes(), self.time);
    }

    fn miss(&mut self, name: &str, why: impl Into<String>) {
        self.missing.push((name.to_owned(), why.into()));
    }

    fn add_file(&mut self, node: &Node, name: &str, path: &str) {
        match node.root.read_if_exists(path) {
            Ok(Some(bytes)) => self.add(name, &String::from_utf8_lossy(&bytes), Keep::Start),
            Ok(None) => self.miss(name, format!("`{path}` does not exist")),
            Err(error) => self.miss(name, error_line(&error)),
        }
    }

    fn add_versions(&mut self, node: &Node) {
        let inspection = crate::commands::inspect::inspect(node);
        let mut versions = json!({
            "program": concat!("kilnd ", env!("CARGO_PKG_VERSION")),
            "time": clock::rfc3339(clock::wall()),
            "uptimeSeconds": clock::boot_time().as_secs(),
        });
        match inspection {
            Ok(found) => {
                versions["osRelease"] = json!(found.os_release);
                versions["kernel"] = json!(found.kernel);
                versions["kubelet"] = json!(found.kubelet_version);
                versions["runtime"] = json!(found.runtime_version);
                versions["installedKernels"] = json!(found.installed_kernels);
                versions["rebootRequired"] = json!(found.reboot_required);
            }
            Err(error) => self.miss("versions of the node", error_line(&error)),
        }
        self.add("versions.json", &versions.to_string(), Keep::Start);
    }

    /// The document and manifest of each generation, the names of its files, and what the generation in force rendered.
    fn add_generations(&mut self, node: &Node) {
        let generations = Generations::new(&node.root).list().unwrap_or_default();
        for name in generations {
            let folder = Generations::folder(&name);
            self.add_file(node, &format!("generations/{name}/{DOCUMENT}"), &format!("{folder}/{DOCUMENT}"));
            self.add_file(node, &format!("generations/{name}/{MANIFEST}"), &format!("{folder}/{MANIFEST}"));
            let mut list = String::new();
            for file in node.root.text_names(&folder).unwrap_or_default() {
                let path = format!("{folder}/{file}");
                let contents = node.root.contents_if_exists(&path).ok().flatten();
                let (mode, size) = contents.map_or((0, 0), |contents| (contents.mode, contents.bytes.len()));
                _ = writeln!(list, "{mode:04o} {size:>8} {file}");
            }
            self.add(&format!("generations/{name}/files.txt"), &list, Keep::Start);
        }
        for file in RENDERED {
            let path = format!("{CURRENT}/{file}");
            if matches!(node.root.read_if_exists(&path), Ok(Some(_))) {
                self.add_file(node, &format!("current/{file}"), &path);
            }
        }
    }

    /// What would change if the document in force were applied again: differences of the node from its document.
    fn add_plan(&mut self, node: &Node) {
        let name = "plan.txt";
        let in_force = load_state(node).ok().and_then(|state| state.in_force().cloned());
        let Some(generation) = in_force else { return self.miss(name, "no generation is in force") };
        let path = format!("{}/{DOCUMENT}", Generations::folder(&generation.folder));
        let bytes = match node.root.read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return self.miss(name, error_line(&error)),
        };
        let candidate = match Candidate::read(node, &bytes, &generation.source) {
            Ok(candidate) => candidate,
            Err(error) => return self.miss(name, error_line(&error)),
        };
        match apply::plan(node, &candidate) {
            Ok((admission, transition)) => {
                self.add(name, &plan::to_text(&candidate, &admission, &transition), Keep::Start);
            }
            Err(error) => self.miss(name, error_line(&error)),
        }
    }

    /// The unit files and drop-ins as systemd merges them.
    fn add_units(&mut self, node: &Node) {
        for unit in UNITS {
            let Some(file) = UnitFile::read(&node.root, unit) else {
                self.miss(&format!("units/{unit}"), "there is no such unit");
                continue;
            };
            let mut text = String::new();
            for path in &file.files {
                let bytes = node.root.read_if_exists(path).ok().flatten().unwrap_or_default();
                _ = writeln!(text, "# {path}\n{}", String::from_utf8_lossy(&bytes));
            }
            self.add(&format!("units/{unit}"), &text, Keep::Start);
        }
    }

    /// The input of `kiln boot explain --capture`.
    fn add_boot(&mut self, node: &Node) {
        let name = "boot.txt";
        if !node.root.is_host() {
            return self.miss(name, "only a running machine has it");
        }
        let properties = format!("--property={UNIT_PROPERTIES}");
        let manager = output("systemctl", &["show", "--no-pager"]);
        let units = output("systemctl", &["show", "--no-pager", "--all", &properties, "*"]);
        match (manager, units) {
            (Ok(manager), Ok(units)) => self.add(name, &format!("{manager}\n{units}"), Keep::Start),
            (Err(why), _) | (_, Err(why)) => self.miss(name, why),
        }
    }

    fn add_journal(&mut self, node: &Node, unit: &str) {
        let name = format!("journal/{unit}.log");
        let unit = format!("--unit={unit}");
        let mut arguments = vec!["--no-pager", "--output=short-precise", LINES, unit.as_str()];
        let folder = format!("--directory={}", node.root.path().join("var/log/journal").display());
        if node.root.is_host() {
            arguments.push("--boot");
        } else {
            arguments.push(&folder);
        }
        match output("journalctl", &arguments) {
            Ok(text) => self.add(&name, &text, Keep::End),
            Err(why) => self.miss(&name, why),
        }
    }
}

/// The output of a program, up to a limit above which nothing is kept anyway.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: std::io::Error| format!("cannot run `{program}`: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(TOTAL).unwrap_or(u64::MAX);
    let read = child.stdout.take().map(|out| out.take(limit).read_to_end(&mut bytes));
    let status = child.wait().map_err(failed)?;
    match read {
        Some(Err(error)) => Err(failed(error)),
        _ if !status.success() => Err(format!("`{program}` ended with {status}")),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// At most `limit` bytes of a text, whole characters.
fn cut(text: &str, limit: usize, keep: Keep) -> &str {
    if text.len() <= limit {
        return text;
    }
    match keep {
        Keep::Start => &text[..text.floor_char_boundary(limit)],
        Keep::End => &text[text.ceil_char_boundary(text.len() - limit)..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_the_right_end() {
        assert_eq!(cut("abcdef", 3, Keep::Start), "abc");
        assert_eq!(cut("abcdef", 3, Keep::End), "def");
        assert_eq!(cut("aäb", 2, Keep::Start), "a");
        assert_eq!(cut("aäb", 2, Keep::End), "b");
        assert_eq!(cut("", 0, Keep::End), "");
    }
}
