//! The same roots in systemd-nspawn: no kernel, no devices and no DHCP, so that what is left is the service manager and who configures.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::nspawn::Blueprint;

use crate::expected::{Configured, PATHS, differing};
use crate::report::median;
use crate::rootfs::Bench;
use crate::tree::Item;
use crate::world::finished;
use crate::{Error, Variant};

/// The variants that are started there.
pub(crate) const VARIANTS: [Variant; 3] = [Variant::Floor, Variant::Kilnd, Variant::CloudInit];

/// How much of cloud-init's time kilnd may take.
pub(crate) const BUDGET: f64 = 0.10;

/// Settings of the kernel belong to the host there: files of the machine's own take the place of those that the document sets, put there
/// by one process, since all but `floor` wait for it.
const PRETEND: &str = "\
[Unit]
DefaultDependencies=no
Before=kiln-config.service systemd-sysctl.service sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount --all --fstab /etc/bench-pretend.fstab
";
const SETTINGS: [&str; 4] =
    ["net/core/somaxconn", "net/ipv4/tcp_max_syn_backlog", "vm/max_map_count", "vm/overcommit_memory"];

/// What makes a root pretend.
fn pretended() -> Vec<Item> {
    let copy = |name: &str| format!("/usr/lib/bench/{}", name.replace('/', "_"));
    let line = |name: &&str| format!("{} /proc/sys/{name} none bind 0 0\n", copy(name));
    let mut items: Vec<Item> = SETTINGS.iter().map(|name| Item::text(&copy(name), "0\n")).collect();
    items.push(Item::text("/etc/bench-pretend.fstab", SETTINGS.iter().map(line).collect::<String>()));
    items.push(Item::text("/etc/systemd/system/bench-pretend.service", PRETEND));
    items.push(Item::Link {
        path: "/etc/systemd/system/sysinit.target.wants/bench-pretend.service".to_owned(),
        to: "/etc/systemd/system/bench-pretend.service".to_owned(),
    });
    items
}

/// The starts of one variant.
#[derive(Clone, Debug)]
pub struct Contained {
    pub variant: Variant,
    /// Seconds of the host from the service manager's start to kubelet's, each.
    pub seconds: Vec<f64>,
    /// What the node had in the end, each.
    pub configured: Vec<Configured>,
}

/// How much of cloud-init's time kilnd took; the paths at which their nodes differ, where they do.
pub(crate) fn ratio(rows: &[Contained]) -> Option<Result<f64, Vec<&'static str>>> {
    let row = |variant| rows.iter().find(|row| row.variant == variant);
    let (kilnd, cloud_init) = (row(Variant::Kilnd)?, row(Variant::CloudInit)?);
    let all = |a| cloud_init.configured.iter().flat_map(move |b| differing(a, b));
    let mut unlike: Vec<&str> = kilnd.configured.iter().flat_map(all).collect();
    unlike.sort_unstable();
    unlike.dedup();
    if !unlike.is_empty() {
        return Some(Err(unlike));
    }
    Some(Ok(median(kilnd.seconds.clone())? / median(cloud_init.seconds.clone())?))
}

/// Starts each variant so often, in turns.
pub(crate) fn start_all(bench: &Bench<'_>, expected: &Configured, runs: usize) -> Result<Vec<Contained>, Error> {
    // The numbers of this namespace's processes: machines are found by them.
    finished(Command::new("mount").args(["-t", "proc", "proc", "/proc"]))?;
    let mut rows = VARIANTS.map(|variant| Contained { variant, seconds: Vec::new(), configured: Vec::new() });
    for number in 1..=runs {
        for row in &mut rows {
            let (seconds, configured) = start(bench, expected, row.variant)?;
            eprintln!("{} in nspawn {number}/{runs}: kubelet after {seconds:.3} s", row.variant.name());
            row.seconds.push(seconds);
            row.configured.push(configured);
        }
    }
    Ok(rows.to_vec())
}

fn start(bench: &Bench<'_>, expected: &Configured, variant: Variant) -> Result<(f64, Configured), Error> {
    let mut items = variant.items(bench.kilnd, bench.units, expected)?;
    items.push(Item::Gone("/etc/systemd/system/multi-user.target.wants/bench-report.service".to_owned()));
    items.extend(pretended());
    bench.medium(Variant::Kilnd)?;
    let root = bench.merged(&format!("nspawn-{}", variant.name()), &items)?;
    // kilnd takes a folder for the medium's device.
    let medium = format!("--bind-ro={}:{}", bench.work.join("medium").display(), crate::variant::MEDIUM);
    let machine = Blueprint::new("boot-bench")
        .argument(format!("--directory={}", root.display()))
        .argument(medium)
        .argument("--capability=CAP_NET_ADMIN")
        .boot();
    machine.settled();
    machine.wait_for("kubelet.service", "active");
    let stamp = |unit: &[&str], property: &str| {
        let words = [&["systemctl", "show", "--value", "--property", property][..], unit].concat();
        let said = machine.run(&words).success().stdout;
        said.trim().parse::<f64>().map_err(|_| Error::Part(format!("{property} of {unit:?} is `{}`", said.trim())))
    };
    let began = stamp(&[], "UserspaceTimestampMonotonic")?;
    let kubelet = stamp(&["kubelet.service"], "ActiveEnterTimestampMonotonic")?;
    let copy = bench.work.join("nspawn-configured");
    let _ = fs::remove_dir_all(&copy);
    for path in PATHS() {
        let (Some(mut content), file) = (machine.read(path), copy.join(path.trim_start_matches('/'))) else { continue };
        if path.starts_with("/proc/") {
            // A real setting always reads with an end of line, however it was written.
            content = format!("{}\n", content.trim_end());
        }
        crate::world::folder(file.parent().unwrap_or(&copy))?;
        fs::write(&file, content).map_err(Error::file(&file))?;
        if !path.starts_with("/proc/") {
            let mode = fs::metadata(root.join(path.trim_start_matches('/'))).map_err(Error::file(&file))?.permissions();
            fs::set_permissions(&file, mode).map_err(Error::file(&file))?;
        }
    }
    let configured = Configured::read(&copy)?;
    drop(machine);
    unmount(&root)?;
    Ok(((kubelet - began) / 1e6, configured))
}

fn unmount(root: &Path) -> Result<(), Error> {
    finished(Command::new("umount").arg(root))
}
