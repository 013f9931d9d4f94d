//! kiln accepts exactly the arguments that the chart's pods pass to it.
//!
//! The rendered arguments run unchanged in the environment of a pod with a workload identity, against an embedded Azure and Kubernetes.
//! Most of these commands fail there, because the donor of the golden file does not exist: what counts is that they reach the cloud or
//! the cluster, and that none of them is a usage error.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use testkit::{Finished, Kiln, SimProcess, run};

const TOKEN: &str = "token-of-the-service-account";
const CLIENT: &str = "a7d2e1b4-93c6-4e5f-8a1b-6c5d4e3f2a01";

/// The arguments of the container in a rendered chart: the list below `args:`.
fn arguments(rendered: &str) -> Vec<String> {
    let mut lines = rendered.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let items = lines.by_ref().map_while(|line| line.trim().strip_prefix("- "));
    items.map(|item| item.trim_matches(['"', '\'']).to_owned()).collect()
}

fn in_pod(sim: &SimProcess, token_file: &Path, arguments: &[&str]) -> Command {
    let mut command = Kiln::at(env!("CARGO_BIN_EXE_kiln")).command(arguments);
    command.env("AZURE_FEDERATED_TOKEN_FILE", token_file).env("AZURE_CLIENT_ID", CLIENT);
    for (name, key) in [
        ("AZURE_TENANT_ID", "tenantId"),
        ("AZURE_AUTHORITY_HOST", "authority"),
        ("AZURE_SUBSCRIPTION_ID", "subscriptionId"),
        ("AZURE_RESOURCE_GROUP", "resourceGroup"),
        ("KILN_ARM_ENDPOINT", "arm"),
        ("KILN_CA_FILE", "caFile"),
        ("KUBECONFIG", "kubeconfig"),
    ] {
        command.env(name, sim.key(key));
    }
    command
}

fn run_in_pod(sim: &SimProcess, token_file: &Path, arguments: &[&str]) -> Finished {
    run(in_pod(sim, token_file, arguments), Duration::from_mins(3))
}

#[test]
fn kiln_accepts_the_arguments_of_every_rendered_chart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (world, token_file) = (folder.path().join("world.yaml"), folder.path().join("token"));
    let client = format!("clients: [{{clientId: {CLIENT}, clientSecret: unused, federatedTokens: [{TOKEN}]}}]\n");
    std::fs::write(&world, client).and_then(|()| std::fs::write(&token_file, TOKEN)).expect("files are written");
    let sim =
        Kiln::at(env!("CARGO_BIN_EXE_kiln")).sim(&["--speed", "instant", "--world", world.to_str().expect("UTF-8")]);

    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dev/chart-tests/golden");
    let files = std::fs::read_dir(&golden).expect("the golden files of the chart").flatten();
    let is_rendered = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.extension().is_some_and(|kind| kind == "yaml") && !name.contains(".values.")
    };
    let (mut count, mut operators) = (0, 0);
    for path in files.map(|entry| entry.path()).filter(is_rendered) {
        let arguments = arguments(&std::fs::read_to_string(&path).expect("a golden file"));
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if arguments.first() == Some(&"operator") {
            operators += 1;
            assert_operator_runs(&sim, &token_file, &arguments);
            continue;
        }
        assert_eq!(arguments.first(), Some(&"prototype"), "{}", path.display());
        let finished = run_in_pod(&sim, &token_file, &arguments);
        assert!(matches!(finished.code, Some(0 | 1)), "{}: {finished}", path.display());
        assert!(arguments[1] != "status" || finished.code == Some(0), "{}: {finished}", path.display());
        // The same command with one more argument is a usage error, so the check above can fail.
        arguments.push("--no-such-option");
        let finished = run_in_pod(&sim, &token_file, &arguments);
        assert_eq!(finished.code, Some(2), "{}: {finished}", path.display());
        assert!(finished.stderr.contains("unexpected argument '--no-such-option'"), "{finished}");
        count += 1;
    }
    assert!(count >= 8, "only {count} golden files");
    assert!(operators >= 1, "no golden file has the operator");
}

/// Runs the operator with the arguments of its pod until it listens, and ends it as the kubelet does.
fn assert_operator_runs(sim: &SimProcess, token_file: &Path, arguments: &[&str]) {
    // The port of the pod may be in use on this host.
    let at = arguments.iter().position(|argument| *argument == "--listen").expect("an address") + 1;
    let mut arguments = arguments.to_vec();
    arguments[at] = "127.0.0.1:0";
    let mut command = in_pod(sim, token_file, &arguments);
    command.env("POD_NAME", "kiln-operator-0").stderr(Stdio::piped());
    let mut child = command.spawn().expect("kiln runs");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines().map_while(Result::ok);
    let listens = lines.by_ref().any(|line| line.contains("serving metrics and health on http://127.0.0.1:"));
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(id, Signal::TERM).expect("the signal is sent");
    let rest: Vec<String> = lines.collect();
    let status = child.wait().expect("kiln ends");
    assert!(listens && status.code() == Some(0), "{status}: {rest:#?}");
}
