//! Removes what identifies a machine from files that a clone keeps otherwise: MAC addresses in the network configuration that cloud-init wrote for the
//! donor, and the donor's name in `/etc/hosts`.
//!
//! An interface is matched by its name afterwards, which works on every machine of the pool. A file is changed only where that is possible: without a
//! name, a line with a MAC address stays, because a clone would configure the wrong interface.

/// The file with names of hosts.
pub const HOSTS: &str = "/etc/hosts";

/// The content of a file without the donor's identity; none if it has none. `host_name` is the donor's name.
///
/// Bytes that are not UTF-8 stay as they are.
pub fn edited(path: &str, content: &[u8], host_name: &str) -> Option<Vec<u8>> {
    // Each byte becomes one character, so that no byte is lost.
    let text: String = content.iter().map(|byte| char::from(*byte)).collect();
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit('.').next().unwrap_or_default();
    let changed = match ending {
        _ if path == HOSTS => hosts(&text, host_name),
        "yaml" | "yml" => netplan(&text),
        "network" | "link" => networkd(name, &text),
        "nmconnection" => connection(&text),
        _ if name.starts_with("ifcfg-") => network_script(&text),
        _ => None,
    };
    changed.map(|text| text.chars().map(|character| u8::try_from(character).unwrap_or(b'?')).collect())
}

/// `name: <id>` instead of each MAC address. Other lines stay unchanged.
fn netplan(yaml: &str) -> Option<String> {
    let key = |line: &str| -> Option<String> {
        let (key, _) = line.trim_start().split_once(':')?;
        (!key.starts_with('#')).then(|| key.to_owned())
    };
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut is_changed = false;
    let line = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let Some(key) = key(line) else { return Some(line.to_owned()) };
        above.retain(|(depth, _)| *depth < indent);
        above.push((indent, key));
        // network / ethernets / eth0 / match / macaddress
        match &above[..] {
            [.., (_, id), (_, of), (_, key)] if of == "match" && key == "macaddress" => {
                is_changed = true;
                Some(format!("{}name: \"{id}\"", &line[..indent]))
            }
            _ => Some(line.to_owned()),
        }
    };
    let text = rewritten(yaml, line);
    is_changed.then_some(text)
}

/// The same for `.network` and `.link` files of networkd, whether cloud-init or netplan's generator wrote them. A `.link` file matches the original
/// name of an interface, a `.network` file the current one.
fn networkd(file: &str, text: &str) -> Option<String> {
    let (stem, ending) = file.rsplit_once('.')?;
    let name_key = if ending == "link" { "OriginalName" } else { "Name" };
    let is_address = |line: &str| line.starts_with("MACAddress=") || line.starts_with("PermanentMACAddress=");
    let matched = section(text, "[Match]");
    if !matched.iter().any(|line| is_address(line)) {
        return None;
    }
    let has_name = matched.iter().any(|line| line.starts_with(&format!("{name_key}=")));
    let id = ["10-netplan-", "10-cloud-init-", "50-cloud-init-"].iter().find_map(|front| stem.strip_prefix(front));
    let mut replacement = match (has_name, id) {
        (true, _) => None,
        (false, Some(id)) => Some(format!("{name_key}={id}")),
        (false, None) => return None,
    };
    let mut inside = false;
    Some(rewritten(text, |line| {
        inside = if line.starts_with('[') { line.trim_end() == "[Match]" } else { inside };
        if inside && is_address(line) { replacement.take() } else { Some(line.to_owned()) }
    }))
}

/// A connection of NetworkManager without `mac-address`, if it names its interface.
fn connection(text: &str) -> Option<String> {
    let is_address = |line: &str| line.replace(' ', "").starts_with("mac-address=");
    let has_name = section(text, "[connection]").iter().any(|line| line.starts_with("interface-name"));
    (has_name && text.lines().any(is_address))
        .then(|| rewritten(text, |line| (!is_address(line)).then(|| line.to_owned())))
}

/// A file of network-scripts without `HWADDR`, if it names its interface.
fn network_script(text: &str) -> Option<String> {
    let is_address = |line: &str| line.starts_with("HWADDR=");
    let has_name = text.lines().any(|line| line.starts_with("DEVICE="));
    (has_name && text.lines().any(is_address))
        .then(|| rewritten(text, |line| (!is_address(line)).then(|| line.to_owned())))
}

/// Lines without the donor's name. A line without another name is removed, and so is the address in it.
fn hosts(text: &str, host_name: &str) -> Option<String> {
    let short = host_name.split('.').next().unwrap_or_default();
    if short.is_empty() || short == "localhost" {
        return None;
    }
    let is_donor = |name: &str| name.split('.').next().is_some_and(|first| first.eq_ignore_ascii_case(short));
    let mut is_changed = false;
    let text = rewritten(text, |line| {
        let (entry, comment) = line.find('#').map_or((line, ""), |at| line.split_at(at));
        let mut words = entry.split_whitespace();
        let address = words.next();
        let (donors, others): (Vec<&str>, Vec<&str>) = words.partition(|name| is_donor(name));
        match address {
            Some(address) if !donors.is_empty() => {
                is_changed = true;
                let line = format!("{address} {} {comment}", others.join(" "));
                (!others.is_empty()).then(|| line.trim_end().to_owned())
            }
            _ => Some(line.to_owned()),
        }
    });
    is_changed.then_some(text)
}

/// The lines of a section of an INI file.
fn section<'t>(text: &'t str, head: &str) -> Vec<&'t str> {
    let mut inside = false;
    let is_inside = |line: &&str| {
        inside = if line.starts_with('[') { line.trim_end() == head } else { inside };
        inside
    };
    text.lines().filter(is_inside).collect()
}

/// A text with each line replaced or dropped.
fn rewritten(text: &str, line: impl FnMut(&str) -> Option<String>) -> String {
    text.lines().filter_map(line).fold(String::with_capacity(text.len()), |text, line| text + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, text: &str) -> Option<String> {
        edited(path, text.as_bytes(), "donor").map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    #[test]
    fn netplan_matches_by_name() {
        let yaml = "# written by cloud-init\nnetwork:\n    ethernets:\n        eth0:\n            dhcp4: true\n            match:\n                driver: hv_netvsc\n                macaddress: 00:0d:3a:01:02:03\n            set-name: eth0\n    version: 2\n";
        let path = "/etc/netplan/50-cloud-init.yaml";
        let result = edit(path, yaml).expect("changed");
        assert_eq!(result, yaml.replace("macaddress: 00:0d:3a:01:02:03", "name: \"eth0\""));
        assert_eq!(edit(path, &result), None);
        let bridge = "network:\n  bridges:\n    br0:\n      macaddress: 00:0d:3a:01:02:03\n";
        assert_eq!(edit(path, bridge), None, "the address to set, not one to match");
    }

    #[test]
    fn networkd_matches_by_name() {
        let text = "[Match]\nPermanentMACAddress=00:0d:3a:01:02:03\n\n[Network]\nDHCP=ipv4\nMACAddress=kept\n";
        let path = "/run/systemd/network/10-netplan-eth0.network";
        let wanted = "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nMACAddress=kept\n";
        assert_eq!(edit(path, text).as_deref(), Some(wanted));
        assert_eq!(edit(path, wanted), None);
        let link = edit("/run/systemd/network/10-netplan-eth1.link", "[Match]\nMACAddress=1\n");
        assert_eq!(link.as_deref(), Some("[Match]\nOriginalName=eth1\n"));
    }

    #[test]
    fn cloud_inits_networkd_files_keep_their_name() {
        // As cloud-init writes it on Azure Linux.
        let path = "/etc/systemd/network/10-cloud-init-eth0.network";
        let text = "[Match]\nMACAddress=00:0d:3a:01:02:03\nName=eth0\n\n[Network]\nDHCP=ipv4\n\n";
        let wanted = "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\n\n";
        assert_eq!(edit(path, text).as_deref(), Some(wanted));
        assert_eq!(edit(path, &text.replace("Name=eth0\n", "")).as_deref(), Some(wanted), "the name of the file");
        let other = "/etc/systemd/network/20-mine.network";
        assert_eq!(edit(other, &text.replace("Name=eth0\n", "")), None, "no name is known");
    }

    #[test]
    fn other_network_managers_match_by_name() {
        let path = "/etc/NetworkManager/system-connections/cloud-init-eth0.nmconnection";
        let text = "[connection]\ninterface-name=eth0\n\n[ethernet]\nmac-address=00:0D:3A:01:02:03\n";
        assert_eq!(edit(path, text).as_deref(), Some("[connection]\ninterface-name=eth0\n\n[ethernet]\n"));
        assert_eq!(edit(path, "[connection]\n\n[ethernet]\nmac-address=1\n"), None);
        let path = "/etc/sysconfig/network-scripts/ifcfg-eth0";
        let text = "BOOTPROTO=dhcp\nDEVICE=eth0\nHWADDR=00:0d:3a:01:02:03\n";
        assert_eq!(edit(path, text).as_deref(), Some("BOOTPROTO=dhcp\nDEVICE=eth0\n"));
    }

    #[test]
    fn donors_name_is_removed_from_hosts() {
        let text = "# comment about donor\n127.0.0.1 localhost\n127.0.1.1\tdonor.internal donor\n10.0.0.4 donor other # x\n\
                    10.0.0.5 donors\n\n::1 ip6-localhost\n";
        let wanted =
            "# comment about donor\n127.0.0.1 localhost\n10.0.0.4 other # x\n10.0.0.5 donors\n\n::1 ip6-localhost\n";
        assert_eq!(edit(HOSTS, text).as_deref(), Some(wanted));
        assert_eq!(edit(HOSTS, wanted), None);
        assert_eq!(edited(HOSTS, text.as_bytes(), ""), None);
        assert_eq!(edited(HOSTS, b"127.0.0.1 localhost\n", "localhost"), None);
        let raw = edited(HOSTS, b"# \xff\n10.0.0.4 DONOR\n", "donor.x").expect("changed");
        assert_eq!(raw, b"# \xff\n");
    }
}
