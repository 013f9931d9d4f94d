//! The same root folders in systemd-nspawn. Without kernel, devices and DHCP, the time is that of the service manager and the configuration.

use std::fs;
use std::process::Command;

use kiln_machines::command::run;
use testkit::nspawn::Blueprint;

use crate::expected::{Configured, PATHS, differing};
use crate::report::median;
use crate::rootfs::Bench;
use crate::tree::{Item, create_folder};
use crate::{Error, Variant};

/// The variants that are started in nspawn.
pub(crate) const VARIANTS: [Variant; 3] = [Variant::Floor, Variant::Kilnd, Variant::CloudInit];

/// The limit of kilnd's time, relative to cloud-init's.
pub(crate) const BUDGET: f64 = 0.10;

/// Mounts files over the kernel settings that the document changes, because they are the host's. One process mounts all of them: every
/// variant but `floor` waits for it.
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

/// The files that replace kernel settings.
fn pretended_settings() -> Vec<Item> {
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
    /// Seconds of the host from the start of the service manager to the start of kubelet, for each start.
    pub seconds: Vec<f64>,
    /// The configured paths of the node, for each start.
    pub configured: Vec<Configured>,
}

/// kilnd's time relative to cloud-init's, or the paths where their nodes differ.
pub(crate) fn ratio(rows: &[Contained]) -> Option<Result<f64, Vec<&'static str>>> {
    let row = |variant| rows.iter().find(|row| row.variant == variant);
    let (kilnd, cloud_init) = (row(Variant::Kilnd)?, row(Variant::CloudInit)?);
    let all = |a| cloud_init.configured.iter().flat_map(move |b| differing(a, b));
    let mut different: Vec<&str> = kilnd.configured.iter().flat_map(all).collect();
    different.sort_unstable();
    different.dedup();
    if !different.is_empty() {
        return Some(Err(different));
    }
    Some(Ok(median(kilnd.seconds.clone())? / median(cloud_init.seconds.clone())?))
}

/// Starts each variant `runs` times, in turns.
pub(crate) fn start_all(bench: &Bench<'_>, expected: &Configured, runs: usize) -> Result<Vec<Contained>, Error> {
    // Machines are found by the process ids of this namespace, which the host's /proc does not show.
    run(Command::new("mount").args(["-t", "proc", "proc", "/proc"]))?;
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
    items.push(Item::Remove("/etc/systemd/system/multi-user.target.wants/bench-report.service".to_owned()));
    items.extend(pretended_settings());
    let (media, _) = bench.media(Variant::Kilnd)?;
    let root = bench.merged(&format!("nspawn-{}", variant.name()), &items)?;
    // kilnd accepts a folder in place of the device.
    let media = format!("--bind-ro={}:{}", media.display(), crate::variant::MEDIA);
    let machine = Blueprint::new("boot-bench")
        .argument(format!("--directory={}", root.display()))
        .argument(media)
        .argument("--capability=CAP_NET_ADMIN")
        .boot();
    machine.settled();
    machine.wait_for("kubelet.service", "active");
    let stamp = |unit: &[&str], property: &str| {
        let words = [&["systemctl", "show", "--value", "--property", property][..], unit].concat();
        let value = machine.run(&words).success().stdout;
        let invalid = |_| Error::Dependency(format!("`{property}` of {unit:?} is `{}`", value.trim()));
        value.trim().parse::<f64>().map_err(invalid)
    };
    let began = stamp(&[], "UserspaceTimestampMonotonic")?;
    let kubelet = stamp(&["kubelet.service"], "ActiveEnterTimestampMonotonic")?;
    let copy = bench.work.join("nspawn-configured");
    let _ = fs::remove_dir_all(&copy);
    for path in PATHS() {
        let (Some(mut content), file) = (machine.read(path), copy.join(path.trim_start_matches('/'))) else { continue };
        if path.starts_with("/proc/") {
            // A real setting always ends with a newline, however it was written.
            content = format!("{}\n", content.trim_end());
        }
        create_folder(file.parent().unwrap_or(&copy))?;
        fs::write(&file, content).map_err(Error::file(&file))?;
        if !path.starts_with("/proc/") {
            let mode = fs::metadata(root.join(path.trim_start_matches('/'))).map_err(Error::file(&file))?.permissions();
            fs::set_permissions(&file, mode).map_err(Error::file(&file))?;
        }
    }
    let configured = Configured::read(&copy)?;
    drop(machine);
    run(Command::new("umount").arg(&root))?;
    Ok(((kubelet - began) / 1e6, configured))
}
