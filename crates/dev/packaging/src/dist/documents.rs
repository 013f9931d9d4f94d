//! Shell completions and manual pages, as the programs themselves describe their command lines.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::layer::Entry;
use crate::package::{read, tree};
use crate::{Error, binary};

/// Shells with the paths of their completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/kiln"),
    ("fish", "share/fish/vendor_completions.d/kiln.fish"),
    ("zsh", "share/zsh/site-functions/_kiln"),
];

/// The documents of each program. Paths are relative to a prefix such as `usr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    pub kiln: Vec<Entry>,
    pub kilnd: Vec<Entry>,
}

impl Documents {
    /// Runs the programs, which must be for this machine. `scratch` is an empty folder.
    pub fn collect(kiln: &Path, kilnd: &Path, version: &str, scratch: &Path) -> Result<Self, Error> {
        let mut documents = Self::default();
        for (shell, path) in SHELLS {
            let content = output(Command::new(kiln).args(["completions", shell]))?;
            documents.kiln.push(Entry { path: path.to_owned(), mode: 0o644, content });
        }
        output(Command::new(kiln).arg("man").arg(scratch))?;
        for page in tree(scratch)? {
            let name = page.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            documents.kiln.push(Entry { path: format!("share/man/man1/{name}"), mode: 0o644, content: read(&page)? });
        }
        let help = String::from_utf8_lossy(&output(Command::new(kilnd).arg("help"))?).into_owned();
        let page = manual_page(&help, version).into_bytes();
        documents.kilnd.push(Entry { path: "share/man/man8/kilnd.8".to_owned(), mode: 0o644, content: page });
        Ok(documents)
    }
}

/// Runs a program without the environment of this machine.
fn output(command: &mut Command) -> Result<Vec<u8>, Error> {
    command.env_clear();
    let line = binary::command_line(command);
    let output = command.output().map_err(|source| Error::Command { line: line.clone(), source })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Error::Exit { line, status: output.status.to_string() })
    }
}

/// The help of kilnd as a manual page. Its first line is `kilnd: DESCRIPTION`.
fn manual_page(help: &str, version: &str) -> String {
    let (first, rest) = help.split_once('\n').unwrap_or((help, ""));
    let description = first.split_once(": ").map_or(first, |(_, text)| text);
    let mut page = format!(".TH kilnd 8 \"\" \"kilnd {version}\"\n.SH NAME\nkilnd \\- {}\n", escape(description));
    let mut is_verbatim = false;
    for line in rest.lines() {
        let heading = line.strip_suffix(':').filter(|heading| !heading.contains(' '));
        if let Some(heading) = heading {
            if is_verbatim {
                page.push_str(".fi\n");
            }
            _ = writeln!(page, ".SH {}\n.nf", heading.to_uppercase());
            is_verbatim = true;
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            _ = writeln!(page, ".SH SYNOPSIS\n{}", escape(usage));
        } else if let Some(codes) = line.strip_prefix("Exit codes: ") {
            let end = if is_verbatim { ".fi\n" } else { "" };
            _ = writeln!(page, "{end}.SH EXIT STATUS\n{}", escape(codes));
            is_verbatim = false;
        } else {
            _ = writeln!(page, "{}", escape(line));
        }
    }
    page
}

/// Escapes characters that roff would interpret.
fn escape(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_becomes_a_manual_page() {
        let help = "kilnd: does a thing\n\nUsage: kilnd COMMAND\n\nCommands:\n  boot  start\n\nOptions:\n  --root DIR\n\nExit codes: 0 success.\n";
        let page = manual_page(help, "1.2.3");
        let expected = ".TH kilnd 8 \"\" \"kilnd 1.2.3\"\n.SH NAME\nkilnd \\- does a thing\n\n.SH SYNOPSIS\nkilnd COMMAND\n\n.SH COMMANDS\n.nf\n  boot  start\n\n\
                        .fi\n.SH OPTIONS\n.nf\n  \\-\\-root DIR\n\n.fi\n.SH EXIT STATUS\n0 success.\n";
        assert_eq!(page, expected);
        assert_eq!(escape(".x\\y"), "\\&.x\\ey");
    }
}
