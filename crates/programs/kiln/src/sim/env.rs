//! `kiln sim env`: environment variables and `az` commands for a running embedded Azure.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::endpoint::Endpoint;
use super::folder;
use crate::answer;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  eval \"$(kiln sim env --state ./azure)\"
      The Azure SDKs, az and kiln in this shell now use the embedded Azure.
  kiln sim serve > ready.json &  kiln sim env --from ready.json --output json
      The same as JSON, without a state folder.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Env {
    #[command(flatten)]
    source: Source,
    /// VM name or computer name of the machine whose managed identity is used
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Shell)]
    output: Output,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// State folder of the running embedded Azure
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// File with the line that `kiln sim serve` printed when it was ready, or `-` for standard input
    #[arg(long, value_name = "FILE|-")]
    from: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// `export` commands, with the `az` commands as comments
    Shell,
    /// One JSON object
    Json,
}

pub(crate) fn run(arguments: &Env) -> Result<(), Failure> {
    let endpoint = arguments.source.read()?;
    let variables = variables(&endpoint, arguments.vm.as_deref());
    let commands = az(&endpoint);
    let text = match arguments.output {
        Output::Shell => shell(&variables, &commands),
        Output::Json => {
            let map: serde_json::Map<_, _> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
            format!("{}\n", json!({"variables": map, "az": lines}))
        }
    };
    answer::print(&text)
}

impl Source {
    fn read(&self) -> Result<Endpoint, Failure> {
        let (path, text) = match (&self.state, &self.from) {
            (Some(folder), _) => {
                let path = folder::endpoint(folder);
                let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        Failure::file(&path, "no embedded Azure is running with this state folder")
                            .hint("start one with `kiln sim serve --state DIR`, which writes this file")
                    }
                    _ => Failure::file(&path, error),
                });
                (path, text?)
            }
            (None, Some(path)) if path == Path::new("-") => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .map_err(|error| Failure::input(format_args!("cannot read standard input: {error}")))?;
                (PathBuf::from("standard input"), text)
            }
            (None, Some(path)) => {
                (path.clone(), std::fs::read_to_string(path).map_err(|error| Failure::file(path, error))?)
            }
            (None, None) => return Err(Failure::input("either `--state` or `--from` is required")),
        };
        serde_json::from_str(text.trim()).map_err(|error| {
            Failure::file(&path, format_args!("not the line that `kiln sim serve` prints when it is ready: {error}"))
        })
    }
}

/// The variables that the Azure SDKs, `az`, kubectl and kiln read.
fn variables(endpoint: &Endpoint, vm: Option<&str>) -> Vec<(&'static str, String)> {
    let ca = endpoint.ca_file.display().to_string();
    // A caller on this host does not have the address of a VM, so the URL names the VM.
    let imds = vm.map_or_else(|| endpoint.imds.clone(), |vm| format!("{}/vm/{vm}", endpoint.imds));
    let mut all = vec![
        ("AZURE_TENANT_ID", endpoint.tenant_id.clone()),
        ("AZURE_CLIENT_ID", endpoint.client_id.clone()),
        ("AZURE_CLIENT_SECRET", endpoint.client_secret.clone()),
        ("AZURE_SUBSCRIPTION_ID", endpoint.subscription_id.clone()),
        ("AZURE_RESOURCE_GROUP", endpoint.resource_group.clone()),
        ("AZURE_AUTHORITY_HOST", endpoint.authority.clone()),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", imds),
        // Microsoft's instance discovery does not know this authority.
        ("AZURE_CORE_INSTANCE_DISCOVERY", "false".to_owned()),
        ("AZURE_CORE_COLLECT_TELEMETRY", "no".to_owned()),
        ("KILN_ARM_ENDPOINT", endpoint.arm.clone()),
        ("KILN_CA_FILE", ca.clone()),
        // These replace the system's trust store, so programs with these variables can only talk to the embedded Azure.
        ("REQUESTS_CA_BUNDLE", ca.clone()),
        ("CURL_CA_BUNDLE", ca.clone()),
        ("SSL_CERT_FILE", ca),
        ("NO_PROXY", "localhost,127.0.0.1,::1".to_owned()),
    ];
    if let Some(kubeconfig) = &endpoint.kubeconfig {
        all.push(("KUBECONFIG", kubeconfig.display().to_string()));
    }
    all
}

/// Commands that register the cloud and log in with `az`. The secret is taken from the environment.
fn az(endpoint: &Endpoint) -> Vec<Vec<Word>> {
    let fixed = |words: &[&str]| words.iter().map(|word| Word::Text((*word).to_owned())).collect::<Vec<_>>();
    let mut register = fixed(&["az", "cloud", "register", "--name", "kiln"]);
    for (option, url) in [
        ("--endpoint-resource-manager", &endpoint.arm),
        ("--endpoint-active-directory", &endpoint.authority),
        ("--endpoint-active-directory-resource-id", &endpoint.arm),
        ("--endpoint-active-directory-graph-resource-id", &endpoint.arm),
        ("--endpoint-management", &endpoint.arm),
    ] {
        register.extend(fixed(&[option, url]));
    }
    let mut login = fixed(&["az", "login", "--service-principal", "--username", &endpoint.client_id, "--password"]);
    login.push(Word::Variable("AZURE_CLIENT_SECRET"));
    login.extend(fixed(&["--tenant", &endpoint.tenant_id]));
    vec![register, fixed(&["az", "cloud", "set", "--name", "kiln"]), login]
}

enum Word {
    Text(String),
    Variable(&'static str),
}

fn shell(variables: &[(&'static str, String)], commands: &[Vec<Word>]) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        let _ = writeln!(text, "export {name}={}", quote(value));
    }
    text.push_str("# For az, run these once, with a separate configuration folder (export AZURE_CONFIG_DIR=DIR):\n");
    for command in commands {
        let _ = writeln!(text, "# {}", line(command));
    }
    text
}

fn line(words: &[Word]) -> String {
    let words = words.iter().map(|word| match word {
        Word::Text(text) => quote(text),
        Word::Variable(name) => format!("\"${name}\""),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell.
fn quote(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_posix_shell() {
        for (word, quoted) in [
            ("a-b", "a-b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME`", r"'it'\''s $HOME`'"),
            ("#", "'#'"),
            ("~", "'~'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
