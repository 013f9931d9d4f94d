//! Further host keys of sshd. Generating an RSA key takes up to half a second on a small machine, so this is deferred until the kubelet runs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::os::Root;

use crate::apply::Error;

const CONFIGURATION: &str = "/etc/ssh/sshd_config";
/// Drop-ins that all distributions include.
const ADDITIONS: &str = "/etc/ssh/sshd_config.d/*.conf";
/// The default host keys of sshd, without the ed25519 key that the first boot generates.
const DEFAULT: [&str; 2] = ["/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key"];
const TOOLS: [&str; 2] = ["/usr/bin/ssh-keygen", "/bin/ssh-keygen"];

/// Generates missing host keys. Returns whether there were any.
pub fn generate_host_keys(root: &Root) -> Result<bool, Error> {
    let tool = TOOLS.iter().map(Path::new).find(|tool| tool.exists());
    match tool {
        Some(tool) => generate(root, tool),
        None => Ok(false),
    }
}

fn generate(root: &Root, tool: &Path) -> Result<bool, Error> {
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
    if left.is_empty() { Ok(true) } else { Err(failed(format!("did not create {}", left.join(", ")))) }
}

/// The configured host keys that do not exist.
fn missing(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    // sshd is not installed.
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

/// The default keys that a configuration uses. Other keys are managed by others.
fn wanted(configuration: &str) -> Vec<String> {
    let named: Vec<&str> = configuration.lines().filter_map(host_key).collect();
    let is_wanted = |key: &&str| named.is_empty() || named.contains(key);
    DEFAULT.into_iter().filter(is_wanted).map(str::to_owned).collect()
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
    fn default_keys_are_used_unless_the_configuration_names_others() {
        assert_eq!(wanted("#HostKey /etc/ssh/ssh_host_rsa_key\nPort 22\n"), DEFAULT);
        assert_eq!(wanted("HostKey /etc/ssh/ssh_host_ed25519_key\n"), Vec::<String>::new());
        assert_eq!(wanted("hostkey=\"/etc/ssh/ssh_host_rsa_key\"\nHostKey\t/data/key\n"), [DEFAULT[0]]);
        assert_eq!(wanted("HostKeyAlgorithms ssh-ed25519\n"), DEFAULT, "another option");
    }

    fn machine(configuration: &str, tool: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("etc/ssh/sshd_config.d")).expect("folders");
        fs::write(folder.path().join("etc/ssh/sshd_config"), configuration).expect("written");
        testkit::script(&folder.path().join("keygen"), tool);
        let root = Root::open(folder.path()).expect("a root");
        (folder, root)
    }

    /// A fake ssh-keygen: `-A -f PREFIX` creates missing keys.
    const TOOL: &str = r#"for kind in rsa ecdsa; do
            key="$3/etc/ssh/ssh_host_${kind}_key"
            [ -e "$key" ] || echo "$1 $2" > "$key"
        done"#;

    #[test]
    fn missing_keys_are_generated_once() {
        let (folder, root) = machine("Port 22\n", TOOL);
        let tool = folder.path().join("keygen");
        fs::write(folder.path().join("etc/ssh/ssh_host_rsa_key"), "mine").expect("written");
        assert!(generate(&root, &tool).expect("generated"));
        let key = |kind: &str| fs::read_to_string(folder.path().join(format!("etc/ssh/ssh_host_{kind}_key")));
        assert_eq!((key("rsa").expect("read").as_str(), key("ecdsa").expect("read").as_str()), ("mine", "-A -f\n"));
        fs::remove_file(&tool).expect("removed");
        assert!(!generate(&root, &tool).expect("nothing to do"), "no program runs if nothing is missing");
    }

    #[test]
    fn no_program_runs_without_sshd_or_missing_keys() {
        let (folder, root) = machine("Port 22\n", "exit 1");
        let tool = folder.path().join("keygen");
        let only = folder.path().join("etc/ssh/sshd_config.d/10-only.conf");
        fs::write(&only, "HostKey /etc/ssh/ssh_host_ed25519_key\n").expect("written");
        assert!(!generate(&root, &tool).expect("nothing to do"));
        fs::remove_file(&only).expect("removed");
        fs::remove_file(folder.path().join("etc/ssh/sshd_config")).expect("removed");
        assert!(!generate(&root, &tool).expect("nothing to do"));
    }

    #[test]
    fn failing_tool_is_reported() {
        for (tool, message) in [("echo no room >&2; exit 1", "no room"), ("exit 0", "ssh_host_ecdsa_key")] {
            let (folder, root) = machine("", tool);
            let error = generate(&root, &folder.path().join("keygen")).expect_err("failed").to_string();
            assert!(error.contains("keygen -A") && error.contains(message), "{error}");
        }
    }
}
