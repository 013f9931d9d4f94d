//! `cargo xtask bench node`: what kilnd costs a node, in figures that other work on the host does not change: processes, system calls, syncs,
//! bytes, and the lowest processor time of many runs. `bench boot` counts instructions, in a machine whose clock they are.

mod image;
mod time;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use kiln_machines::command::run;
use testkit::nspawn::Blueprint;

use crate::tree::create_folder;
use crate::variant::{DOCUMENT, ovf_env};
use crate::{Error, tree};
use image::Agents;

/// The kernel settings in the document.
const SETTINGS: [&str; 4] = [
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
];

/// The folders of a machine before its configuration.
const FOLDERS: [&str; 5] = ["etc/sudoers.d", "etc/sysctl.d", "home", "run", "var/lib"];

/// The VM id of a machine.
const VM_ID: &str = "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02\n";

/// The prefix of the folders of machines that are started once.
const FIRST: &str = "first-";

/// The number of system accounts of a small Debian.
const ACCOUNTS: u32 = 24;

fn account(id: u32) -> String {
    if id == 0 { "root".to_owned() } else { format!("service{id}") }
}

/// The limit of a figure, if it has one.
type Budget = Option<u64>;

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    pub name: &'static str,
    pub value: u64,
    pub budget: Budget,
}

/// The counts of one trace of system calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Calls {
    all: u64,
    children: u64,
    synced_before_ready: u64,
    written: u64,
}

/// Measures kilnd at a first boot, when nothing changes, and while it watches. `strace` is the command line of strace.
pub fn measure(kilnd: &Path, units: &Path, strace: &[OsString], work: &Path) -> Result<Vec<Figure>, Error> {
    let node = Node { kilnd, strace, work };
    let figure = |name, value, budget| Figure { name, value, budget };
    let size = fs::metadata(kilnd).map_err(Error::file(kilnd))?.len();
    let mut figures = vec![figure("size of the program, bytes", size, Some(5 << 20))];

    let root = node.fresh("root", Provisioning::WithId)?;
    let first = node.traced(&root, &["boot"])?;
    figures.push(figure("first boot: child processes", first.children, Some(0)));
    figures.push(figure("first boot: syncs before kubelet may start", first.synced_before_ready, Some(4)));
    figures.push(figure("first boot: system calls", first.all, None));
    figures.push(figure("first boot: reloads of the service manager", reloads(kilnd, units)?, Some(0)));
    let time = node.first_boots(Provisioning::WithId)?;
    figures.push(figure("first boot: processor time, µs (1)", micros(time), Some(5_000)));
    figures.push(figure("first boot: share of the kernel in all runs, %", time.in_kernel, None));
    let time = node.first_boots(Provisioning::WithoutId)?;
    figures.push(figure("first boot without a VM id: processor time, µs (2)", micros(time), None));

    let document = work.join("document.json");
    fs::write(&document, DOCUMENT).map_err(Error::file(&document))?;
    let apply = ["apply", "--config", &document.display().to_string()].map(str::to_owned);
    let apply: Vec<&str> = apply.iter().map(String::as_str).collect();
    let nothing = node.traced(&root, &apply)?;
    figures.push(figure("nothing to do: calls that write", nothing.written, Some(0)));
    figures.push(figure("nothing to do: system calls", nothing.all, None));
    let time = time::measure((0..time::RUNS).map(|_| node.command(&root, &apply)))?;
    figures.push(figure("nothing to do: processor time, µs (3)", micros(time), Some(2_000)));
    figures.push(figure("nothing to do: share of the kernel in all runs, %", time.in_kernel, None));
    let time = image::measure(kilnd, units, Agents::Running)?;
    figures.push(figure("with cloud-init and waagent, first boot: processor time, µs (4)", time.first, None));
    figures.push(figure("with cloud-init and waagent, later boot: processor time, µs (4)", time.later, None));
    let time = image::measure(kilnd, units, Agents::Disabled)?;
    figures.push(figure("with both disabled, first boot: processor time, µs (4)", time.first, None));
    figures.push(figure("with both disabled, later boot: processor time, µs (4)", time.later, None));
    figures.push(figure("watch: peak memory, KiB", node.watching(&root)?, Some(8 << 10)));
    node.clear()?;
    Ok(figures)
}

/// The explanation of the figures.
const EXPLANATION: &str = "\
Processor time is the lowest of 40 runs, in the program and in the kernel, from exec to the end of the process.
(1) The document, the host name and the first account come from provisioning media. kilnd opens the gate, syncs its files, and requests
    the image version from the metadata service once, at a port where nothing listens.
(2) The same on a machine without a VM id: it is not recorded, and the metadata service is not called.
(3) `apply` of the current document: every part of the node is compared.
(4) `kiln-config.service` in systemd-nspawn, on an image that has cloud-init and waagent: the lowest of 5 first boots, and of 15 boots at which
    nothing has changed. The disk is an overlay, on which each change costs the kernel more than on the folders of (1) to (3).
";

fn micros(time: time::Time) -> u64 {
    u64::try_from(time.least.as_micros()).unwrap_or(u64::MAX)
}

/// A table with explanations, and whether every budget is met.
pub fn table(figures: &[Figure]) -> (String, bool) {
    let mut text = format!("{:<64} {:>9} {:>9}\n", "kilnd", "measured", "budget");
    let mut is_within_budget = true;
    for Figure { name, value, budget } in figures {
        let (budget, verdict) = match budget {
            Some(budget) if value <= budget => (budget.to_string(), "  met"),
            Some(budget) => (budget.to_string(), "  EXCEEDED"),
            None => ("-".to_owned(), ""),
        };
        is_within_budget &= verdict != "  EXCEEDED";
        let _ = writeln!(text, "{name:<64} {value:>9} {budget:>9}{verdict}");
    }
    (format!("{text}\n{EXPLANATION}"), is_within_budget)
}

/// The sources of configuration of a new machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provisioning {
    /// Provisioning media and a VM id.
    WithId,
    /// Only provisioning media.
    WithoutId,
}

struct Node<'a> {
    kilnd: &'a Path,
    strace: &'a [OsString],
    work: &'a Path,
}

impl Node<'_> {
    /// Creates the root folder of a new machine.
    fn fresh(&self, name: &str, provisioning: Provisioning) -> Result<PathBuf, Error> {
        let root = self.work.join(name);
        if root.exists() {
            fs::remove_dir_all(&root).map_err(Error::file(&root))?;
        }
        for name in FOLDERS {
            create_folder(&root.join(name))?;
        }
        let text = |path: &str, content: &str| tree::Item::text(path, content);
        let accounts = |line: fn(u32) -> String| (0..ACCOUNTS).map(line).collect::<String>();
        let mut items = vec![
            text("/etc/passwd", &accounts(|id| format!("{}:x:{id}:{id}::/:/usr/sbin/nologin\n", account(id)))),
            text("/etc/group", &accounts(|id| format!("{}:x:{id}:\n", account(id)))),
            text("/etc/shadow", &accounts(|id| format!("{}:*:19000:0:99999:7:::\n", account(id)))),
            text("/etc/hostname", "localhost\n"),
            text("/cd/ovf-env.xml", &ovf_env()),
        ];
        if provisioning == Provisioning::WithId {
            items.push(text("/dmi/product_uuid", VM_ID));
        }
        items.extend(SETTINGS.iter().map(|path| text(path, "0\n")));
        tree::apply(&root, &items)?;
        Ok(root)
    }

    /// The time of first boots, each of a new machine. Their folders are removed after all measurements, because a file system creates files more
    /// slowly right after deleting others.
    fn first_boots(&self, provisioning: Provisioning) -> Result<time::Time, Error> {
        let name = |run| format!("{FIRST}{provisioning:?}-{run}");
        let roots = (0..time::RUNS).map(|run| self.fresh(&name(run), provisioning)).collect::<Result<Vec<_>, _>>()?;
        time::measure(roots.iter().map(|root| self.command(root, &["boot"])))
    }

    /// Removes the folders of first boots.
    fn clear(&self) -> Result<(), Error> {
        for entry in fs::read_dir(self.work).map_err(Error::file(self.work))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(FIRST) {
                fs::remove_dir_all(entry.path()).map_err(Error::file(&entry.path()))?;
            }
        }
        Ok(())
    }

    fn command(&self, root: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(self.kilnd);
        command.args(arguments(root, words));
        command
    }

    fn traced(&self, root: &Path, words: &[&str]) -> Result<Calls, Error> {
        let trace = self.work.join("trace");
        let mut command = Command::new(&self.strace[0]);
        command.args(&self.strace[1..]).args(["-f", "-qq", "-s", "200", "-o"]).arg(&trace);
        run(command.arg(self.kilnd).args(arguments(root, words)))?;
        let text = fs::read_to_string(&trace).map_err(Error::file(&trace))?;
        Ok(count(&text))
    }

    /// The peak memory of the daemon after two seconds.
    fn watching(&self, root: &Path) -> Result<u64, Error> {
        let mut command = self.command(root, &["watch"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = Error::spawn("kilnd watch");
        let mut child = KilledOnDrop(command.spawn().map_err(&failed)?);
        thread::sleep(Duration::from_secs(2));
        let file = PathBuf::from(format!("/proc/{}/status", child.0.id()));
        let text = fs::read_to_string(&file).map_err(Error::file(&file))?;
        let ended = child.0.try_wait().map_err(&failed)?;
        let high =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        match (ended, high) {
            (None, Some(high)) => Ok(high),
            _ => Err(Error::Dependency("`kilnd watch` ended".to_owned())),
        }
    }
}

fn arguments(root: &Path, words: &[&str]) -> Vec<String> {
    let below = |name: &str| root.join(name).display().to_string();
    let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for (option, value) in [
        ("--root", root.display().to_string()),
        ("--dmi", below("dmi")),
        ("--cd", below("cd")),
        ("--credentials", below("credentials")),
        // Nothing listens there.
        ("--imds", "http://127.0.0.1:9".to_owned()),
        ("--wire-server", "http://127.0.0.1:9".to_owned()),
    ] {
        arguments.extend([option.to_owned(), value]);
    }
    arguments
}

/// Adds the units of a first boot. `prefix` precedes the command line of kilnd's `boot`.
fn with_units(mut blueprint: Blueprint, units: &Path, prefix: &str) -> Result<Blueprint, Error> {
    let read = |name: &str| {
        let path = units.join(name);
        fs::read(&path).map_err(Error::file(&path))
    };
    let folder = "/usr/lib/systemd/system";
    // The gate stays closed if a service does not run the generation in force.
    let drop_in = "containerd.service.d/zz-kiln.conf";
    blueprint = blueprint.file(&format!("{folder}/{drop_in}"), read(drop_in)?);
    for (service, target, prefix, command) in
        [("kiln-identity", "sysinit.target", "", "identity"), ("kiln-config", "multi-user.target", prefix, "boot")]
    {
        let line = format!("{prefix}/usr/bin/kilnd {command} --dmi /hardware/dmi --cd /hardware/cd");
        blueprint = blueprint
            .file(&format!("{folder}/{service}.service"), read(&format!("{service}.service"))?)
            .file(
                &format!("{folder}/{service}.service.d/bench.conf"),
                format!("[Service]\nNotifyAccess=all\nExecStart=\nExecStart={line}\n"),
            )
            .link(&format!("{folder}/{target}.wants/{service}.service"), &format!("../{service}.service"));
    }
    Ok(blueprint)
}

/// The number of reloads of a real systemd during a first boot.
fn reloads(kilnd: &Path, units: &Path) -> Result<u64, Error> {
    let blueprint = with_units(Blueprint::new("bench").shared(kilnd, "/usr/bin/kilnd"), units, "")?;
    // Kernel settings belong to the host, so those of the document are replaced by files.
    let mut machine = blueprint.pretend(&SETTINGS).build();
    machine.hardware("dmi/product_uuid", VM_ID);
    machine.hardware("cd/ovf-env.xml", ovf_env());
    machine.boot();
    machine.settled();
    if !machine.exists("/run/kiln/ready") {
        return Err(Error::Dependency(format!(
            "kilnd did not open the gate:\n{}",
            machine.journal(Some("kiln-config.service"))
        )));
    }
    let journal = machine.shell("journalctl --boot --no-pager _PID=1").stdout;
    Ok(journal.matches("Reloading").count() as u64)
}

/// A child that is killed when this value is dropped.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Counts the calls in the output of strace. Each line has a process id and a call.
fn count(trace: &str) -> Calls {
    let mut counted = Calls::default();
    let mut is_ready = false;
    for line in trace.lines() {
        let Some((_, call)) = line.trim_start().split_once(' ') else { continue };
        let call = call.trim_start();
        let Some((name, arguments)) = call.split_once('(') else { continue };
        if name.starts_with(['+', '-', '<']) {
            continue;
        }
        counted.all += 1;
        // Threads are created by the same call, with another flag.
        let is_process =
            matches!(name, "fork" | "vfork") || (name.starts_with("clone") && !arguments.contains("CLONE_THREAD"));
        counted.children += u64::from(is_process);
        let is_sync = matches!(name, "fsync" | "fdatasync" | "sync" | "syncfs");
        counted.synced_before_ready += u64::from(is_sync && !is_ready);
        is_ready |= name.starts_with("rename") && arguments.contains("ready\"");
        let opens = name.starts_with("open")
            && ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| arguments.contains(flag));
        let changes = [
            "rename",
            "unlink",
            "mkdir",
            "rmdir",
            "symlink",
            "link",
            "chmod",
            "fchmod",
            "chown",
            "fchown",
            "truncate",
            "ftruncate",
        ];
        let is_change = changes
            .iter()
            .any(|change| name.strip_suffix("at").unwrap_or(name) == *change || name == format!("{change}at2"));
        counted.written += u64::from(!arguments.contains("/dev/null") && (opens || is_change || is_sync));
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
12 execve(\"/usr/bin/kilnd\", [\"kilnd\"], 0x7) = 0
12 openat(4, \"etc/hostname\", O_RDONLY|O_CLOEXEC) = 5
12 fsync(5) = 0
12 openat(4, \"etc/.new\", O_WRONLY|O_CREAT|O_EXCL, 0600) = 6
12 clone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 13
12 clone3({flags=CLONE_VM|CLONE_VFORK}, 88) = 14
12 renameat2(4, \"run/kiln/.x\", 4, \"run/kiln/ready\", 0) = 0
12 syncfs(4) = 0
12 +++ exited with 0 +++
";

    #[test]
    fn children_writes_and_syncs_before_the_gate_are_counted() {
        assert_eq!(count(TRACE), Calls { all: 8, children: 1, synced_before_ready: 1, written: 4 });
        assert_eq!(count("12 --- SIGCHLD {si_signo=SIGCHLD} ---\n"), Calls::default());
    }

    #[test]
    fn exceeded_budget_is_shown_and_fails() {
        let figure = |value, budget| Figure { name: "x", value, budget };
        assert!(table(&[figure(4, Some(4)), figure(9, None)]).1);
        let (text, is_within_budget) = table(&[figure(5, Some(4))]);
        assert!(!is_within_budget && text.contains("EXCEEDED") && !text.contains("  met"), "{text}");
    }
}
