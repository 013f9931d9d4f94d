//! The sandbox itself: its contents, and its end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::inside::{KILN, in_sandbox, node_root, sandbox};
use super::machines::{kiln, machines, output_of, text};
use super::shell::shell;

/// The control groups of all sandboxes, in every hierarchy.
fn groups() -> Vec<String> {
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let all = inside(Path::new("/sys/fs/cgroup")).flat_map(|entry| inside(&entry.path()).chain([entry]));
    let names = all.filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
    names.filter(|name| name.starts_with("kiln-local-")).collect()
}

/// Waits until `look` returns true, up to 30 s.
#[track_caller]
fn wait(what: &str, look: impl Fn() -> bool) {
    for _ in 0..1500 {
        if look() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("timed out waiting until {what}");
}

/// The permissions of a file.
#[track_caller]
fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o777
}

#[test]
fn command_runs_in_a_private_network_and_its_exit_code_is_returned() {
    let state = tempfile::tempdir().expect("a folder");
    let output = sandbox(state.path())
        .args(["sh", "-c", "cat /proc/1/comm; ip -brief address show kiln0; exit 7"])
        .output()
        .expect("kiln runs");
    assert_eq!(output.status.code(), Some(7), "{}", output_of(&output));
    let text = output_of(&output);
    assert!(text.contains("10.77.0.1/16") && text.contains("169.254.169.254/32"), "{text}");
    assert_eq!(text.lines().next(), Some("kiln"), "the first process: {text}");
    assert!(!Path::new("/sys/class/net/kiln0").exists(), "the bridge is on the host");
    assert_eq!(fs::read_dir(state.path().join("run")).expect("a folder").count(), 0, "a file is left in `run`");
}

/// Whether a process has a path in its command line.
fn is_in_a_command_line(path: &Path) -> bool {
    let wanted = path.as_os_str().as_encoded_bytes();
    let names = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(wanted.len()).any(|part| part == wanted)
    };
    fs::read_dir("/proc").expect("processes").flatten().any(names)
}

#[test]
fn sandbox_ends_with_its_machines_when_its_starter_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, mark) = (folder.path().join("state"), folder.path().join("there"));
    let script = format!(
        "set -eu; {KILN} local image import debian {}; {KILN} local pool create few --image debian; touch {}; sleep 3617",
        node_root().display(),
        mark.display()
    );
    let mut command = sandbox(&state);
    let mut starter = command.args(["sh", "-c", &script]).stdout(Stdio::null()).spawn().expect("kiln runs");
    wait("a machine runs", || mark.exists());
    let group = format!("kiln-local-{}", starter.id());
    assert!(groups().contains(&group));
    assert!(is_in_a_command_line(&state.join("run/machines")), "no arguments of systemd-nspawn");
    let second = sandbox(&state).arg("true").output().expect("kiln runs");
    assert_eq!(second.status.code(), Some(3), "{}", output_of(&second));

    starter.kill().expect("killed");
    starter.wait().expect("a child");
    wait("its control groups are gone", || !groups().contains(&group));
    // The keeper, which removes the groups, ends last.
    wait("its last process has ended", || !is_in_a_command_line(&state));
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains(state.to_str().expect("plain")), "{mounts}");

    // Disks are still there for the next sandbox.
    let again = || sandbox(&state).args(["sh", "-c", &format!("{KILN} local start")]).output().expect("kiln runs");
    let mut restarted = again();
    // The first keeper has removed the groups and is about to end.
    for _ in 0..100 {
        if restarted.status.code() != Some(3) {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        restarted = again();
    }
    assert!(restarted.status.success() && output_of(&restarted).contains("few000000"), "{}", output_of(&restarted));
}

/// Runs as on a host with version 2 of control groups: a private mount namespace shows only that hierarchy.
#[test]
fn machine_gets_the_hosts_controllers_with_version_2_of_control_groups() {
    let state = tempfile::tempdir().expect("a folder");
    let script = format!(
        "set -eu; {KILN} local image import debian {} >&2; {KILN} local pool create few --image debian >&2
        own=$(sed -n s/^0:://p /proc/self/cgroup); cd /sys/fs/cgroup; echo \"$own\"; echo $(cat cgroup.subtree_control)
        cd \"./${{own%/main}}/few000000\"; echo $(cat cgroup.controllers); cat cgroup.procs
        for look in $(seq 600); do ls -d payload/system.slice 2>/dev/null && exit; sleep 0.05; done; exit 1",
        node_root().display()
    );
    let sandbox = sandbox(state.path());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", "mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec \"$@\"", "sh"]);
    command.arg(sandbox.get_program()).args(sandbox.get_args()).args(["sh", "-c", &script]);
    let starter = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("unshare runs");
    let group = format!("kiln-local-{}", starter.id());
    let output = starter.wait_with_output().expect("a child");
    assert!(output.status.success(), "{}", output_of(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let [own, enabled, controllers, rest @ ..] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(*own, format!("/{group}/main"));
    assert_eq!(controllers, enabled);
    assert!(rest.contains(&"payload/system.slice"), "no groups of the machine: {text}");
    assert!(
        rest.iter().all(|line| line.parse::<u32>().is_err()),
        "a process is in a group that enables controllers for others: {text}"
    );
    assert!(!groups().contains(&group));
}

#[test]
fn groups_of_a_killed_keeper_are_removed_by_the_next_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, mark) = (folder.path().join("state"), folder.path().join("there"));
    let mut command = sandbox(&state);
    let mut starter =
        command.args(["sh", "-c", &format!("touch {}; sleep 3617", mark.display())]).spawn().expect("runs");
    wait("the sandbox runs", || mark.exists());
    let group = format!("kiln-local-{}", starter.id());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", starter.id())).expect("its keeper");
    let killed = Command::new("kill").args(["-KILL", children.trim()]).status().expect("kill runs");
    assert!(killed.success(), "one keeper: {children}");
    assert_eq!(starter.wait().expect("a child").code(), Some(137));
    wait("the sandbox ended with its keeper", || !is_in_a_command_line(&state));
    assert!(groups().contains(&group), "another process removed them");

    let next = sandbox(&folder.path().join("other")).arg("true").output().expect("kiln runs");
    assert!(next.status.success(), "{}", output_of(&next));
    assert!(!groups().contains(&group));
}

#[test]
fn missing_root_or_missing_program_is_reported_before_anything_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let words = ["local", "run", "--state", state.to_str().expect("plain"), "--", "true"];
    let mut command = Command::new(KILN);
    let without = command.args(words).env("PATH", folder.path()).output().expect("kiln runs");
    assert_eq!(without.status.code(), Some(2), "{}", output_of(&without));
    assert!(
        output_of(&without).contains("`sh` was not found in `PATH`") && output_of(&without).contains("`dash`"),
        "{}",
        output_of(&without)
    );
    let mut command = Command::new("setpriv");
    let unprivileged =
        command.args(["--reuid", "65534", "--clear-groups", "--", KILN]).args(words).output().expect("it runs");
    assert_eq!(unprivileged.status.code(), Some(2), "{}", output_of(&unprivileged));
    assert!(
        output_of(&unprivileged).contains("needs root") && output_of(&unprivileged).contains("sudo"),
        "{}",
        output_of(&unprivileged)
    );
    assert!(!state.exists());
}

#[test]
fn command_outside_of_a_sandbox_is_refused_with_the_command_that_starts_one() {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(KILN);
    let output = command.args(["local", "status", "--state"]).arg(state.path()).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2), "{}", output_of(&output));
    assert!(output_of(&output).contains("kiln local run --state"), "{}", output_of(&output));

    let nowhere = state.path().join("nowhere");
    let mut command = Command::new(KILN);
    let output = command.args(["local", "pool", "list", "--state"]).arg(&nowhere).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2), "{}", output_of(&output));
    let next = format!("kiln local run --state {} -- COMMAND", nowhere.display());
    assert!(output_of(&output).contains(&next), "{}", output_of(&output));
    assert!(!nowhere.exists(), "a query created the state folder");
}

#[test]
fn machines_outlive_the_command_that_started_them_and_are_removed_with_their_pool() {
    let name = "sandbox::machines_outlive_the_command_that_started_them_and_are_removed_with_their_pool";
    in_sandbox(name, |state| {
        kiln(&["local", "image", "import", "debian", node_root().to_str().expect("plain")]);
        let user_data = state.join("data");
        fs::write(&user_data, "the user data").expect("written");
        let data = user_data.to_str().expect("plain");
        let created =
            kiln(&["local", "pool", "create", "few", "--image", "debian", "--count", "2", "--user-data", data]);
        assert_eq!(created["nodes"], serde_json::json!(["few000000", "few000001"]));
        let all = machines();
        let imds = |node: &str, path: &str| {
            let url =
                format!("http://169.254.169.254/metadata/instance/compute/{path}?api-version=2021-05-01&format=text");
            shell(node, &format!("curl --silent --fail --header Metadata:true '{url}'"))
        };
        for node in ["few000000", "few000001"] {
            assert_eq!(all[node]["on"], true);
            assert_eq!(all[node]["image"], "/local/images/debian");
            assert_eq!(imds(node, "vmId"), text(&all[node], "vmId"));
            assert_eq!(shell(node, "cat /run/kiln-local/dmi/product_uuid"), text(&all[node], "vmId"));
            assert_eq!(imds(node, "osProfile/computerName"), node);
            assert_eq!(imds(node, "storageProfile/imageReference/id"), "/local/images/debian");
            assert_eq!(shell(node, &format!("echo {} | base64 --decode", imds(node, "userData"))), "the user data");
            let own = shell(node, "ip -brief address show host0");
            assert!(own.contains(&text(&all[node], "address")), "{own}");
            let console = state.join("consoles").join(format!("{}.log", text(&all[node], "name")));
            assert_eq!(mode(&console), 0o600, "a console may contain secrets");
        }
        assert_eq!(mode(state), 0o700, "disks may contain secrets");
        // All capabilities but those for the host's kernel modules and clock.
        let bounds = shell("few000000", "sed -n 's/^CapBnd:[^0-9a-f]*//p' /proc/1/status");
        let bounds = u64::from_str_radix(&bounds, 16).expect("a mask");
        let (module, admin, time) = (bounds >> 16 & 1, bounds >> 21 & 1, bounds >> 25 & 1);
        assert_eq!((module, admin, time), (0, 1, 0), "{bounds:x}");

        // Machines reach each other: the connection is refused, it does not time out.
        let other = text(&all["few000001"], "address");
        shell("few000000", &format!("curl --silent --max-time 10 http://{other}/ || test $? = 7"));
        shell("few000000", "echo kept >/root/kept; systemctl is-system-running --wait || true");

        // A machine outside of pools is a virtual machine without a scale set.
        kiln(&["local", "machine", "create", "single-1", "--image", "debian"]);
        let single = machines().remove("single-1").expect("it exists");
        assert_eq!((&single["on"], &single["membership"]), (&serde_json::json!(true), &serde_json::Value::Null));
        assert_eq!(imds("single-1", "vmId"), text(&single, "vmId"));
        assert_eq!(imds("single-1", "name"), "single-1");
        assert_eq!(imds("single-1", "vmScaleSetName"), "");
        assert!(imds("single-1", "resourceId").ends_with("/Microsoft.Compute/virtualMachines/single-1"));
        assert_eq!(imds("single-1", "storageProfile/imageReference/id"), "/local/images/debian");
        kiln(&["local", "machine", "delete", "single-1"]);
        assert_eq!(machines().keys().collect::<Vec<_>>(), ["few000000", "few000001"]);

        // Wrong arguments have their own exit code.
        for (name, image, problem) in
            [("no-such", "bookworm", "image `bookworm` does not exist"), ("with space", "debian", "`with space`")]
        {
            let mut wrong = Command::new(KILN);
            let wrong = wrong.args(["local", "pool", "create", name, "--image", image]).output().expect("kiln runs");
            assert_eq!(wrong.status.code(), Some(2), "{}", output_of(&wrong));
            assert!(output_of(&wrong).contains(problem), "{}", output_of(&wrong));
        }

        // A refused `create` does not change the user data of the existing pool.
        let other = state.join("other");
        fs::write(&other, "something else").expect("written");
        let mut refused = Command::new(KILN);
        refused.args(["local", "pool", "create", "few", "--image", "debian", "--size", "2x512", "--user-data"]);
        let refused = refused.arg(&other).output().expect("kiln runs");
        assert!(!refused.status.success(), "{}", output_of(&refused));
        let read = || shell("few000000", &format!("echo {} | base64 --decode", imds("few000000", "userData")));
        assert_eq!(read(), "the user data");
        // A repeated `create` replaces it.
        kiln(&[
            "local",
            "pool",
            "create",
            "few",
            "--image",
            "debian",
            "--count",
            "2",
            "--user-data",
            other.to_str().expect("plain"),
        ]);
        assert_eq!(read(), "something else");

        let on = |all: &serde_json::Value| -> Vec<bool> {
            all["machines"].as_array().into_iter().flatten().map(|machine| machine["on"] == true).collect()
        };
        assert_eq!(on(&kiln(&["local", "stop"])), [false, false]);
        assert_eq!(on(&kiln(&["local", "start"])), [true, true]);

        let scaled = kiln(&["local", "pool", "scale", "few", "1"]);
        assert_eq!(scaled["nodes"], serde_json::json!(["few000000"]));
        assert_eq!(machines().len(), 1);
        assert_eq!(shell("few000000", "cat /root/kept"), "kept");
        kiln(&["local", "pool", "delete", "few"]);
        assert!(machines().is_empty());
        kiln(&["local", "pool", "create", "few", "--image", "debian", "--count", "0"]);
        let left = fs::read_to_string(state.join("pools/few.json")).expect("the document of the pool");
        assert!(!left.contains("userData"), "user data is left for the next pool of this name: {left}");
        kiln(&["local", "pool", "delete", "few"]);
        assert_eq!(fs::read_dir(state.join("layers")).expect("a folder").count(), 0, "a disk is left");
    });
}
