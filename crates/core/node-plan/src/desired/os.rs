//! The rest of the operating system: clock, name servers, limits, swap, certificates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_node_config::Effect;

use super::draft::Draft;
use super::kubelet::ended;
use super::{Block, Late};
use crate::artifact::{Affect, Artifact};
use crate::layout::{self, KUBELET_UNIT, RUNTIME_UNIT, UNITS};
use kiln_types::sha256_hex;

/// On the disk of the system: it is there at every start, and a disk that is not would leave the machine without the swap that pods
/// were promised.
const SWAP_FILE: &str = "/var/lib/kiln/swapfile";

pub(super) fn render(draft: &mut Draft<'_>) {
    proxies(draft);
    clock(draft);
    names(draft);
    limits(draft);
    certificates(draft);
    let mib = draft.spec.os.swap.size_mib;
    draft.desired.late.push(Late::Swap { path: SWAP_FILE.to_owned(), mib });
    if mib > 0 {
        draft.fstab(&format!("{SWAP_FILE} none swap nofail 0 0"));
    }
}

/// A proxy goes into files of one line each.
fn proxies(draft: &mut Draft<'_>) {
    let proxy = &draft.spec.os.proxy;
    let named = [("http", &proxy.http), ("https", &proxy.https)];
    let all = named.into_iter().chain(proxy.no_proxy.iter().map(|host| ("noProxy", host)));
    for (name, value) in all {
        let odd = value.contains(|c: char| c.is_control() || c.is_whitespace());
        draft.unfit_when(odd, format!("spec.os.proxy.{name}"), "one word is needed, without spaces");
    }
}

fn clock(draft: &mut Draft<'_>) {
    let time = &draft.spec.os.time;
    for server in &time.servers {
        let good = !server.is_empty() && server.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
        draft.unfit_when(!good, "spec.os.time.servers", format!("`{server}` is no name of a server"));
    }
    if !time.servers.is_empty() {
        let service = draft.facts.image.time_service.clone();
        let artifact = if service.starts_with("chrony") {
            let lines = time.servers.iter().fold(String::new(), |text, server| text + "server " + server + " iburst\n");
            let folder = if service == "chronyd.service" { "/etc/chrony.d" } else { "/etc/chrony/conf.d" };
            Artifact::plain(format!("{folder}/90-kiln.conf"), lines)
        } else {
            let text = format!("[Time]\nNTP={}\n", time.servers.join(" "));
            Artifact::plain("/etc/systemd/timesyncd.conf.d/90-kiln.conf", text)
        };
        draft.elsewhere(artifact.restarts(&service));
    }
    if !time.zone.is_empty() {
        let good = time
            .zone
            .split('/')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c)));
        draft.unfit_when(!good, "spec.os.time.zone", format!("`{}` is no time zone, as in Europe/Berlin", time.zone));
        draft.elsewhere(Artifact::link("/etc/localtime", format!("/usr/share/zoneinfo/{}", time.zone)));
    }
}

/// Pods get the domains that their node searches.
fn names(draft: &mut Draft<'_>) {
    let search = &draft.spec.cluster.dns.search;
    for domain in search {
        let good = !domain.is_empty() && domain.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
        draft.unfit_when(!good, "spec.cluster.dns.search", format!("`{domain}` is no domain"));
    }
    if !search.is_empty() {
        let text = format!("[Resolve]\nDomains={}\n", search.join(" "));
        let file = Artifact::plain("/etc/systemd/resolved.conf.d/90-kiln.conf", text);
        draft.elsewhere(file.restarts("systemd-resolved.service"));
    }
}

fn limits(draft: &mut Draft<'_>) {
    let limits = &draft.spec.os.limits;
    if limits.is_empty() {
        return;
    }
    let mut text = "[Service]\n".to_owned();
    for (name, value) in limits {
        let good = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        draft.unfit_when(
            !good(name, "") || !good(value, ":"),
            format!("spec.os.limits[{name}]"),
            "no limit, as in LimitNOFILE=1048576",
        );
        let _ = writeln!(text, "{name}={value}");
    }
    let file = Artifact::plain(format!("{UNITS}/{RUNTIME_UNIT}.d/90-kiln-limits.conf"), text);
    draft.desired.late.push(Late::Unit(file.restarts(RUNTIME_UNIT)));
}

/// Each certificate is a file of its own for whoever makes the bundle anew, and is in the bundle now.
fn certificates(draft: &mut Draft<'_>) {
    let os = &draft.spec.os;
    let given = os.certificate_authorities.iter().chain([&os.proxy.certificate_authority]);
    let named: BTreeMap<String, String> = given
        .filter(|pem| !pem.trim().is_empty())
        .map(|pem| ended(pem))
        .map(|pem| (sha256_hex(pem.as_bytes())[..16].to_owned(), pem))
        .collect();
    let image = &draft.facts.image;
    for (name, pem) in &named {
        draft.elsewhere(Artifact::plain(format!("{}/kiln-{name}.crt", image.certificates), pem.clone()));
    }
    let hears = |unit: &str| Affect { unit: unit.to_owned(), effect: Effect::Restart };
    draft.desired.blocks.push(Block {
        path: image.certificate_bundle.clone(),
        text: named.into_values().collect(),
        affects: vec![hears(RUNTIME_UNIT), hears(KUBELET_UNIT)],
    });
}

impl Draft<'_> {
    /// A line of the table of file systems.
    pub(super) fn fstab(&mut self, line: &str) {
        let blocks = &mut self.desired.blocks;
        if !blocks.iter().any(|block| block.path == layout::FSTAB) {
            blocks.push(Block { path: layout::FSTAB.to_owned(), text: String::new(), affects: Vec::new() });
        }
        let block = blocks.iter_mut().find(|block| block.path == layout::FSTAB).expect("pushed");
        if !line.is_empty() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
}
