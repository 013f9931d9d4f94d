//! The rest of the operating system: time, DNS search domains, limits, swap, certificates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_node_config::Effect;

use super::draft::Draft;
use super::kubelet::ended;
use super::{Block, Deferred};
use crate::file::{AffectedUnit, DesiredFile};
use crate::layout::{self, KUBELET_UNIT, RUNTIME_UNIT, SWAP_FILE, UNITS};
use kiln_types::sha256_hex;

pub(super) fn render(draft: &mut Draft<'_>) {
    proxies(draft);
    clock(draft);
    search_domains(draft);
    limits(draft);
    certificates(draft);
    let mib = draft.spec.os.swap.size_mib;
    draft.desired.deferred.push(Deferred::Swap { path: SWAP_FILE.to_owned(), mib });
    if mib > 0 {
        draft.fstab(&format!("{SWAP_FILE} none swap nofail 0 0"));
    }
}

/// Proxy values go into files with one line per variable.
fn proxies(draft: &mut Draft<'_>) {
    let proxy = &draft.spec.os.proxy;
    let named = [("http", &proxy.http), ("https", &proxy.https)];
    let all = named.into_iter().chain(proxy.no_proxy.iter().map(|host| ("noProxy", host)));
    for (name, value) in all {
        let has_space = value.contains(|c: char| c.is_control() || c.is_whitespace());
        draft.reject_if(has_space, format!("spec.os.proxy.{name}"), "must not contain white space");
    }
}

fn clock(draft: &mut Draft<'_>) {
    let time = &draft.spec.os.time;
    for server in &time.servers {
        let good = !server.is_empty() && server.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
        draft.reject_if(!good, "spec.os.time.servers", format!("`{server}` is not a host name or address"));
    }
    if !time.servers.is_empty() {
        let service = draft.facts.image.time_service.clone();
        let file = if service.starts_with("chrony") {
            let lines = time.servers.iter().fold(String::new(), |text, server| text + "server " + server + " iburst\n");
            let folder = if service == "chronyd.service" { "/etc/chrony.d" } else { "/etc/chrony/conf.d" };
            DesiredFile::plain(format!("{folder}/90-kiln.conf"), lines)
        } else {
            let text = format!("[Time]\nNTP={}\n", time.servers.join(" "));
            DesiredFile::plain("/etc/systemd/timesyncd.conf.d/90-kiln.conf", text)
        };
        draft.elsewhere(file.restarts(&service));
    }
    if !time.zone.is_empty() {
        let good = time
            .zone
            .split('/')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c)));
        draft.reject_if(
            !good,
            "spec.os.time.zone",
            format!("`{}` is not a time zone such as Europe/Berlin", time.zone),
        );
        draft.elsewhere(DesiredFile::link("/etc/localtime", format!("/usr/share/zoneinfo/{}", time.zone)));
    }
}

/// Pods inherit the search domains of their node.
fn search_domains(draft: &mut Draft<'_>) {
    let search = &draft.spec.cluster.dns.search;
    for domain in search {
        let good = !domain.is_empty() && domain.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
        draft.reject_if(!good, "spec.cluster.dns.search", format!("`{domain}` is not a domain name"));
    }
    if !search.is_empty() {
        let text = format!("[Resolve]\nDomains={}\n", search.join(" "));
        let file = DesiredFile::plain("/etc/systemd/resolved.conf.d/90-kiln.conf", text);
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
        draft.reject_if(
            !good(name, "") || !good(value, ":"),
            format!("spec.os.limits[{name}]"),
            "not a limit such as LimitNOFILE=1048576",
        );
        let _ = writeln!(text, "{name}={value}");
    }
    let file = DesiredFile::plain(format!("{UNITS}/{RUNTIME_UNIT}.d/90-kiln-limits.conf"), text);
    draft.desired.deferred.push(Deferred::Unit(file.restarts(RUNTIME_UNIT)));
}

/// Each certificate is written to a file, so that tools which rebuild the bundle include it, and is added to the bundle right away.
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
        draft.elsewhere(DesiredFile::plain(format!("{}/kiln-{name}.crt", image.certificates), pem.clone()));
    }
    let restarts = |unit: &str| AffectedUnit { unit: unit.to_owned(), effect: Effect::Restart };
    draft.desired.blocks.push(Block {
        path: image.certificate_bundle.clone(),
        text: named.into_values().collect(),
        affects: vec![restarts(RUNTIME_UNIT), restarts(KUBELET_UNIT)],
    });
}

impl Draft<'_> {
    /// Adds a line to kiln's block in `/etc/fstab`; the block exists even without lines.
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
