//! The world itself: what is in it, what becomes of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::inside::{KILN, in_world, node_root, world};
use super::machines::{kiln, machines, said, text};
use super::shell::shell;

/// The control groups of worlds, in one hierarchy or in each of many.
fn groups() -> Vec<String> {
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let all = inside(Path::new("/sys/fs/cgroup")).flat_map(|entry| inside(&entry.path()).chain([entry]));
    let names = all.filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
    names.filter(|name| name.starts_with("kiln-local-")).collect()
}

/// Waits until something is so; far longer than it takes.
#[track_caller]
fn wait(what: &str, look: impl Fn() -> bool) {
    for _ in 0..1500 {
        if look() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain until {what}");
}

/// Who may do what with a file.
#[track_caller]
fn mode(path: &Path) -> u32 {
    let found = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    found.permissions().mode() & 0o777
}

#[test]
fn a_command_runs_in_a_network_of_its_own_and_its_code_is_the_worlds() {
    let state = tempfile::tempdir().expect("a folder");
    let output = world(state.path())
        .args(["sh", "-c", "cat /proc/1/comm; ip -brief address show kiln0; exit 7"])
        .output()
        .expect("kiln runs");
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains("10.77.0.1/16") && said.contains("169.254.169.254/32"), "{said}");
    assert_eq!(said.lines().next(), Some("kiln"), "the first of its processes: {said}");
    assert!(!Path::new("/sys/class/net/kiln0").exists(), "the bridge is in the world alone");
    assert_eq!(fs::read_dir(state.path().join("run")).expect("a folder").count(), 0, "what was in memory is gone");
}

/// Whether a process outside of this one names a path in its command line.
fn somebody_names(path: &Path) -> bool {
    let wanted = path.as_os_str().as_encoded_bytes();
    let names = |entry: fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(wanted.len()).any(|part| part == wanted)
    };
    fs::read_dir("/proc").expect("processes").flatten().any(names)
}

#[test]
fn a_world_whose_starter_is_killed_ends_with_its_machines_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, mark) = (folder.path().join("state"), folder.path().join("there"));
    let script = format!(
        "set -eu; {KILN} local image import debian {}; {KILN} local pool create few --image debian; touch {}; sleep 3617",
        node_root().display(),
        mark.display()
    );
    let mut command = world(&state);
    let mut starter = command.args(["sh", "-c", &script]).stdout(Stdio::null()).spawn().expect("kiln runs");
    wait("a machine runs", || mark.exists());
    let group = format!("kiln-local-{}", starter.id());
    assert!(groups().contains(&group));
    assert!(somebody_names(&state.join("run/machines")), "systemd-nspawn is told what to mount");
    let second = world(&state).arg("true").output().expect("kiln runs");
    assert_eq!(second.status.code(), Some(3), "{}", said(&second));

    starter.kill().expect("killed");
    starter.wait().expect("a child");
    wait("its control groups are gone", || !groups().contains(&group));
    // Who removed the groups is the last to go.
    wait("its last process is gone", || !somebody_names(&state));
    let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains(state.to_str().expect("plain")), "{mounts}");

    // What was on disk is there for the next world.
    let again = || world(&state).args(["sh", "-c", &format!("{KILN} local start")]).output().expect("kiln runs");
    let mut again_said = again();
    // The keeper of the first one has removed the groups and is about to end.
    for _ in 0..100 {
        if again_said.status.code() != Some(3) {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        again_said = again();
    }
    let again = again_said;
    assert!(again.status.success() && said(&again).contains("few000000"), "{}", said(&again));
}

/// What a host with version 2 of control groups has, whatever this one has: the one hierarchy, in a view of the mounts that is the test's own.
#[test]
fn where_control_groups_are_one_hierarchy_a_machine_gets_the_controllers_that_the_host_passes_on() {
    let state = tempfile::tempdir().expect("a folder");
    let script = format!(
        "set -eu; {KILN} local image import debian {} >&2; {KILN} local pool create few --image debian >&2
        own=$(sed -n s/^0:://p /proc/self/cgroup); cd /sys/fs/cgroup; echo \"$own\"; echo $(cat cgroup.subtree_control)
        cd \"./${{own%/main}}/few000000\"; echo $(cat machine/cgroup.controllers); cat cgroup.procs
        for look in $(seq 600); do ls -d machine/payload/system.slice 2>/dev/null && exit; sleep 0.05; done; exit 1",
        node_root().display()
    );
    let world = world(state.path());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", "mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec \"$@\"", "sh"]);
    command.arg(world.get_program()).args(world.get_args()).args(["sh", "-c", &script]);
    let starter = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("unshare runs");
    let group = format!("kiln-local-{}", starter.id());
    let output = starter.wait_with_output().expect("a child");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let [own, passed_on, controllers, rest @ ..] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert_eq!(*own, format!("/{group}/main"));
    assert_eq!(controllers, passed_on);
    assert!(rest.contains(&"machine/payload/system.slice"), "the machine's own groups: {text}");
    assert!(
        rest.iter().all(|line| line.parse::<u32>().is_err()),
        "a process is where controllers are passed on: {text}"
    );
    assert!(!groups().contains(&group));
}

#[test]
fn groups_that_a_killed_keeper_left_go_when_the_next_world_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, mark) = (folder.path().join("state"), folder.path().join("there"));
    let mut command = world(&state);
    let mut starter =
        command.args(["sh", "-c", &format!("touch {}; sleep 3617", mark.display())]).spawn().expect("runs");
    wait("the world is there", || mark.exists());
    let group = format!("kiln-local-{}", starter.id());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", starter.id())).expect("its keeper");
    let killed = Command::new("kill").args(["-KILL", children.trim()]).status().expect("kill runs");
    assert!(killed.success(), "one keeper: {children}");
    assert_eq!(starter.wait().expect("a child").code(), Some(137));
    wait("the world ended with its keeper", || !somebody_names(&state));
    assert!(groups().contains(&group), "nobody was left to remove them");

    let next = world(&folder.path().join("other")).arg("true").output().expect("kiln runs");
    assert!(next.status.success(), "{}", said(&next));
    assert!(!groups().contains(&group));
}

#[test]
fn who_is_not_root_or_lacks_a_program_is_told_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let words = ["local", "run", "--state", state.to_str().expect("plain"), "--", "true"];
    let mut command = Command::new(KILN);
    let without = command.args(words).env("PATH", folder.path()).output().expect("kiln runs");
    assert_eq!(without.status.code(), Some(2), "{}", said(&without));
    assert!(
        said(&without).contains("`sh` is not in `PATH`") && said(&without).contains("`dash`"),
        "{}",
        said(&without)
    );
    let mut command = Command::new("setpriv");
    let nobody =
        command.args(["--reuid", "65534", "--clear-groups", "--", KILN]).args(words).output().expect("it runs");
    assert_eq!(nobody.status.code(), Some(2), "{}", said(&nobody));
    assert!(said(&nobody).contains("needs root") && said(&nobody).contains("sudo"), "{}", said(&nobody));
    assert!(!state.exists());
}

#[test]
fn outside_of_a_world_no_machine_can_be_made_and_the_error_says_how_to_start_one() {
    let state = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(KILN);
    let output = command.args(["local", "status", "--state"]).arg(state.path()).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("kiln local run --state"), "{}", said(&output));

    let nowhere = state.path().join("nowhere");
    let mut command = Command::new(KILN);
    let output = command.args(["local", "pool", "list", "--state"]).arg(&nowhere).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let next = format!("kiln local run --state {} -- COMMAND", nowhere.display());
    assert!(said(&output).contains(&next), "{}", said(&output));
    assert!(!nowhere.exists(), "a question makes nothing");
}

#[test]
fn machines_outlive_who_switched_them_on_know_who_they_are_and_go_with_their_pool() {
    let name = "world::machines_outlive_who_switched_them_on_know_who_they_are_and_go_with_their_pool";
    in_world(name, |state| {
        kiln(&["local", "image", "import", "debian", node_root().to_str().expect("plain")]);
        let told = state.join("told");
        fs::write(&told, "what machines are told").expect("written");
        let data = told.to_str().expect("plain");
        let made = kiln(&["local", "pool", "create", "few", "--image", "debian", "--count", "2", "--user-data", data]);
        assert_eq!(made["nodes"], serde_json::json!(["few000000", "few000001"]));
        let all = machines();
        let ask = |node: &str, path: &str| {
            let url =
                format!("http://169.254.169.254/metadata/instance/compute/{path}?api-version=2021-05-01&format=text");
            shell(node, &format!("curl --silent --fail --header Metadata:true '{url}'"))
        };
        for node in ["few000000", "few000001"] {
            assert_eq!(all[node]["on"], true);
            assert_eq!(all[node]["image"], "/local/images/debian");
            assert_eq!(ask(node, "vmId"), text(&all[node], "vmId"));
            assert_eq!(shell(node, "cat /run/kiln-local/dmi/product_uuid"), text(&all[node], "vmId"));
            assert_eq!(ask(node, "osProfile/computerName"), node);
            assert_eq!(ask(node, "storageProfile/imageReference/id"), "/local/images/debian");
            assert_eq!(
                shell(node, &format!("echo {} | base64 --decode", ask(node, "userData"))),
                "what machines are told"
            );
            let own = shell(node, "ip -brief address show host0");
            assert!(own.contains(&text(&all[node], "address")), "{own}");
            let console = state.join("consoles").join(format!("{}.log", text(&all[node], "name")));
            assert_eq!(mode(&console), 0o600, "what a machine says may be a secret");
        }
        assert_eq!(mode(state), 0o700, "its disks are nobody else's");
        // Neither loads modules into the host's kernel nor sets its clock, though it has every other right of root.
        let bounds = shell("few000000", "sed -n 's/^CapBnd:[^0-9a-f]*//p' /proc/1/status");
        let bounds = u64::from_str_radix(&bounds, 16).expect("a mask");
        let (module, admin, time) = (bounds >> 16 & 1, bounds >> 21 & 1, bounds >> 25 & 1);
        assert_eq!((module, admin, time), (0, 1, 0), "{bounds:x}");

        // They reach each other, as nodes do: the other answers that nobody listens there, instead of not at all.
        let other = text(&all["few000001"], "address");
        shell("few000000", &format!("curl --silent --max-time 10 http://{other}/ || test $? = 7"));
        shell("few000000", "echo kept >/root/kept; systemctl is-system-running --wait || true");

        // A machine of no pool is a virtual machine of no scale set.
        kiln(&["local", "machine", "create", "alone-1", "--image", "debian"]);
        let alone = machines().remove("alone-1").expect("it is there");
        assert_eq!((&alone["on"], &alone["membership"]), (&serde_json::json!(true), &serde_json::Value::Null));
        assert_eq!(ask("alone-1", "vmId"), text(&alone, "vmId"));
        assert_eq!(ask("alone-1", "name"), "alone-1");
        assert_eq!(ask("alone-1", "vmScaleSetName"), "");
        assert!(ask("alone-1", "resourceId").ends_with("/Microsoft.Compute/virtualMachines/alone-1"));
        assert_eq!(ask("alone-1", "storageProfile/imageReference/id"), "/local/images/debian");
        kiln(&["local", "machine", "delete", "alone-1"]);
        assert_eq!(machines().keys().collect::<Vec<_>>(), ["few000000", "few000001"]);

        // What was asked for wrongly is told apart from what went wrong.
        for (name, image, problem) in
            [("no-such", "bookworm", "no image `bookworm`"), ("with space", "debian", "`with space` is no")]
        {
            let mut wrong = Command::new(KILN);
            let wrong = wrong.args(["local", "pool", "create", name, "--image", image]).output().expect("kiln runs");
            assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
            assert!(said(&wrong).contains(problem), "{}", said(&wrong));
        }

        // A pool that is refused leaves the one of its name as it was told.
        let other = state.join("other");
        fs::write(&other, "something else").expect("written");
        let mut refused = Command::new(KILN);
        refused.args(["local", "pool", "create", "few", "--image", "debian", "--size", "2x512", "--user-data"]);
        let refused = refused.arg(&other).output().expect("kiln runs");
        assert!(!refused.status.success(), "{}", said(&refused));
        assert_eq!(fs::read_to_string(state.join("user-data/few")).expect("kept"), "what machines are told");

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
        assert!(!state.join("user-data/few").exists(), "the next pool of the name is told nothing of this one's");
        assert_eq!(fs::read_dir(state.join("layers")).expect("a folder").count(), 0, "no disk is left");
    });
}
