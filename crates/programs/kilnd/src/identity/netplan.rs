//! Removes the donor's MAC address from the network configuration. cloud-init writes it into a netplan file, and netplan's generator has already
//! converted that file for networkd before any service of this boot runs.

use crate::os::{Durability, Root};
use kiln_node_plan::DesiredFile;
use kiln_node_plan::identity::named;

/// Files that netplan's generator wrote at the start of this boot.
const GENERATED: [&str; 2] = ["/run/systemd/network/10-netplan-*.network", "/run/systemd/network/10-netplan-*.link"];

/// Whether a netplan file matches an interface by MAC address.
pub(super) fn has_mac_address(yaml: &str) -> bool {
    yaml.lines().any(|line| key(line) == Some("macaddress"))
}

/// Matches interfaces by name instead of MAC address, so that the configuration works on any machine.
pub fn remove_mac_addresses(root: &Root) -> Result<(), crate::os::Error> {
    let mut changed = Vec::new();
    for pattern in named("netplan").map_or(&[][..], |item| item.paths) {
        for path in root.glob(pattern)? {
            let text = String::from_utf8_lossy(&root.read(&path)?).into_owned();
            changed.extend(without_addresses(&text).map(|text| (path, text, 0o600)));
        }
    }
    for pattern in GENERATED {
        for path in root.glob(pattern)? {
            let text = String::from_utf8_lossy(&root.read(&path)?).into_owned();
            changed.extend(generated(&path, &text).map(|text| (path, text, 0o644)));
        }
    }
    let files: Vec<DesiredFile> =
        changed.iter().map(|(path, text, mode)| DesiredFile::new(path, text.as_bytes(), *mode)).collect();
    root.write_all(&files, Durability::Later)
}

/// The configuration with `name: <id>` instead of each MAC address; none if it has none. Other lines stay unchanged.
fn without_addresses(yaml: &str) -> Option<String> {
    if !has_mac_address(yaml) {
        return None;
    }
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut text = String::with_capacity(yaml.len());
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(key) = key(line) {
            above.retain(|(depth, _)| *depth < indent);
            above.push((indent, key));
        }
        // network / ethernets / eth0 / match / macaddress
        let id = above.len().checked_sub(3).map(|at| above[at].1);
        match (key(line), id) {
            (Some("macaddress"), Some(id)) => text.extend([&line[..indent], "name: \"", id, "\""]),
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    Some(text)
}

/// The generated file as it would be without MAC addresses.
fn generated(path: &str, text: &str) -> Option<String> {
    let is_address = |line: &str| line.starts_with("MACAddress=") || line.starts_with("PermanentMACAddress=");
    let id = path.rsplit('/').next()?.strip_prefix("10-netplan-")?;
    let (id, ending) = id.rsplit_once('.')?;
    // A `.link` file matches the original name, a `.network` file the current one.
    let name = if ending == "link" { "OriginalName" } else { "Name" };
    let mut inside = false;
    let mut changed = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            inside = if line.starts_with('[') { line == "[Match]" } else { inside };
            if inside && is_address(line) {
                changed = true;
                format!("{name}={id}")
            } else {
                line.to_owned()
            }
        })
        .collect();
    changed.then(|| lines.join("\n") + "\n")
}

fn key(line: &str) -> Option<&str> {
    let (key, _) = line.trim_start().split_once(':')?;
    (!key.starts_with('#')).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_address_is_replaced_with_the_name() {
        let yaml = "# written by cloud-init\nnetwork:\n    ethernets:\n        eth0:\n            dhcp4: true\n            match:\n                driver: hv_netvsc\n                macaddress: 00:0d:3a:01:02:03\n            set-name: eth0\n    version: 2\n";
        let result = without_addresses(yaml).expect("changed");
        assert_eq!(result, yaml.replace("macaddress: 00:0d:3a:01:02:03", "name: \"eth0\""));
        assert!(!has_mac_address(&result));
        assert_eq!(without_addresses(&result), None);
    }

    #[test]
    fn generated_files_are_changed_too() {
        let text = "[Match]\nPermanentMACAddress=00:0d:3a:01:02:03\n\n[Network]\nDHCP=ipv4\nMACAddress=kept\n";
        let path = "/run/systemd/network/10-netplan-eth0.network";
        let wanted = "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nMACAddress=kept\n";
        assert_eq!(generated(path, text).as_deref(), Some(wanted));
        assert_eq!(generated(path, wanted), None);
        let link = generated("/run/systemd/network/10-netplan-eth1.link", "[Match]\nMACAddress=1\n").expect("changed");
        assert_eq!(link, "[Match]\nOriginalName=eth1\n");
    }
}
