//! The host keys of sshd besides the one that is made at once: an RSA key takes up to half a second of a small machine, and nobody waits
//! for it before the kubelet starts.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::os::Root;

use crate::apply::Error;

const CONFIGURATION: &str = "/etc/ssh/sshd_config";
/// What the configuration of every distribution includes.
const ADDITIONS: &str = "/etc/ssh/sshd_config.d/*.conf";
/// The keys that sshd looks for when its configuration names none, without the one that is there already.
const USUAL: [&str; 2] = ["/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key"];
/// Where the tool may be.
const TOOLS: [&str; 2] = ["/usr/bin/ssh-keygen", "/bin/ssh-keygen"];

/// Makes the host keys that sshd wants and does not have. True where there were any.
pub fn make_host_keys(root: &Root) -> Result<bool, Error> {
    let tool = TOOLS.iter().map(Path::new).find(|tool| tool.exists());
    match tool {
        Some(tool) => make(root, tool),
        None => Ok(false),
    }
}

fn make(root: &Root, tool: &Path) -> Result<bool, Error> {
    if missing(root)?.is_empty() {
        return Ok(false);
    }
    let mut command = Command::new(tool);
    command.arg("-A").stdin(Stdio::null());
    if !root.is_host() {
        command.arg("-f").arg(root.path());
    }
    let output = command.output().map_err(|source| Error::Io { path: tool.to_owned(), source })?;
    let failed = |output: String| Error::Tool { tool: format!("{} -A", tool.display()), output };
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let left = missing(root)?;
    if left.is_empty() { Ok(true) } else { Err(failed(format!("it made no {}", left.join(", ")))) }
}

/// The keys that sshd wants and that are not there.
fn missing(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    // Without one there is no sshd.
    let Some(main) = root.read_if_exists(CONFIGURATION)? else { return Ok(Vec::new()) };
    let mut text = String::from_utf8_lossy(&main).into_owned();
    for path in root.glob(ADDITIONS)? {
        text.push('\n');
        text.push_str(&String::from_utf8_lossy(&root.read(&path)?));
    }
    let mut missing = Vec::new();
    for key in wanted(&text) {
        if root.kind(&key)?.is_none() {
            missing.push(key);
        }
    }
    Ok(missing)
}

/// The usual keys that a configuration wants. Others have an owner who makes them.
fn wanted(configuration: &str) -> Vec<String> {
    let named: Vec<&str> = configuration.lines().filter_map(host_key).collect();
    let is_wanted = |key: &&str| named.is_empty() || named.contains(key);
    USUAL.into_iter().filter(is_wanted).map(str::to_owned).collect()
}

fn host_key(line: &str) -> Option<&str> {
    let (word, value) = line.trim().split_once([' ', '\t', '='])?;
    word.eq_ignore_ascii_case("HostKey").then(|| value.trim_matches([' ', '\t', '=', '"']))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_usual_keys_are_wanted_unless_the_configuration_names_its_own() {
        assert_eq!(wanted("#HostKey /etc/ssh/ssh_host_rsa_key\nPort 22\n"), USUAL);
        assert_eq!(wanted("HostKey /etc/ssh/ssh_host_ed25519_key\n"), Vec::<String>::new());
        assert_eq!(wanted("hostkey=\"/etc/ssh/ssh_host_rsa_key\"\nHostKey\t/data/key\n"), [USUAL[0]]);
        assert_eq!(wanted("HostKeyAlgorithms ssh-ed25519\n"), USUAL, "another word");
    }

    fn machine(configuration: &str, tool: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("etc/ssh/sshd_config.d")).expect("folders");
        fs::write(folder.path().join("etc/ssh/sshd_config"), configuration).expect("written");
        testkit::script(&folder.path().join("keygen"), tool);
        let root = Root::open(folder.path()).expect("a root");
        (folder, root)
    }

    /// Stands for the real tool: `-A -f PREFIX`, and what is there stays.
    const TOOL: &str = r#"for kind in rsa ecdsa; do
            key="$3/etc/ssh/ssh_host_${kind}_key"
            [ -e "$key" ] || echo "$1 $2" > "$key"
        done"#;

    #[test]
    fn keys_are_made_once_and_those_that_are_there_stay() {
        let (folder, root) = machine("Port 22\n", TOOL);
        let tool = folder.path().join("keygen");
        fs::write(folder.path().join("etc/ssh/ssh_host_rsa_key"), "mine").expect("written");
        assert!(make(&root, &tool).expect("made"));
        let key = |kind: &str| fs::read_to_string(folder.path().join(format!("etc/ssh/ssh_host_{kind}_key")));
        assert_eq!((key("rsa").expect("read").as_str(), key("ecdsa").expect("read").as_str()), ("mine", "-A -f\n"));
        fs::remove_file(&tool).expect("removed");
        assert!(!make(&root, &tool).expect("nothing to do"), "no program runs where nothing is missing");
    }

    #[test]
    fn no_program_runs_where_sshd_is_not_there_or_wants_none_of_them() {
        let (folder, root) = machine("Port 22\n", "exit 1");
        let tool = folder.path().join("keygen");
        let only = folder.path().join("etc/ssh/sshd_config.d/10-only.conf");
        fs::write(&only, "HostKey /etc/ssh/ssh_host_ed25519_key\n").expect("written");
        assert!(!make(&root, &tool).expect("nothing to do"));
        fs::remove_file(&only).expect("removed");
        fs::remove_file(folder.path().join("etc/ssh/sshd_config")).expect("removed");
        assert!(!make(&root, &tool).expect("nothing to do"));
    }

    #[test]
    fn a_tool_that_fails_or_makes_nothing_is_named() {
        for (tool, said) in [("echo no room >&2; exit 1", "no room"), ("exit 0", "ssh_host_ecdsa_key")] {
            let (folder, root) = machine("", tool);
            let error = make(&root, &folder.path().join("keygen")).expect_err("failed").to_string();
            assert!(error.contains("keygen -A") && error.contains(said), "{error}");
        }
    }
}
