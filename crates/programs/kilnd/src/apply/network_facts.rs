//! Reads the facts about the machine that its network needs. They are spread over many files, so only those that the document needs are read.

use kiln_node_config::spec::Spec;
use kiln_node_plan::network_file::{self, Interface};
use kiln_node_plan::{Facts, sysctl_files};

use crate::os::{Error, Root};

/// Adds the facts that this document needs.
pub fn gather(root: &Root, spec: &Spec, facts: &mut Facts) -> Result<(), Error> {
    if spec.network.mtu != 0 {
        let interface = interface(root, &facts.image.interface)?;
        let files: Vec<_> = files(root, &network_file::FOLDERS, ".network")?;
        let files: Vec<_> = files.into_iter().map(|(_, name, text)| (name, text)).collect();
        let found = network_file::find(&files, &interface);
        // At a first boot a file for any interface, such as Azure Linux's `99-dhcp-en.network`, may be replaced by one of these later.
        let may_change =
            facts.first_boot && (root.kind("/etc/netplan")?.is_some() || root.kind("/etc/cloud")?.is_some());
        let is_final = |name: &String| !may_change || network_file::written_later(&interface.name).contains(name);
        facts.network_file = found.filter(is_final);
    }
    if !matches!(spec.network.plugin.as_str(), "" | "none") {
        facts.sysctls = sysctl_files::parse(&files(root, &sysctl_files::FOLDERS, ".conf")?);
    }
    Ok(())
}

/// Folder, name and text of the files with a suffix. A file that is masked by a link to `/dev/null` is empty.
fn files(root: &Root, folders: &[&'static str], suffix: &str) -> Result<Vec<(&'static str, String, String)>, Error> {
    let mut found = Vec::new();
    for folder in folders {
        for name in root.text_names(folder)?.into_iter().filter(|name| name.ends_with(suffix)) {
            let path = format!("{folder}/{name}");
            let masked = root.read_link(&path).ok().flatten().is_some_and(|target| target.as_os_str() == "/dev/null");
            let bytes = if masked { None } else { root.read_if_exists(&path)? };
            found.push((*folder, name, String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()));
        }
    }
    Ok(found)
}

fn interface(root: &Root, name: &str) -> Result<Interface, Error> {
    let folder = format!("/sys/class/net/{name}");
    let mac = root.read_if_exists(format!("{folder}/address"))?.unwrap_or_default();
    let driver = root.read_link(format!("{folder}/device/driver")).ok().flatten().unwrap_or_default();
    Ok(Interface {
        name: name.to_owned(),
        mac: String::from_utf8_lossy(&mac).trim().to_ascii_lowercase(),
        driver: driver.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use kiln_node_config::spec::Network;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(&path[1..]);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let root = Root::open(folder.path()).expect("a root");
        (folder, root)
    }

    fn gathered(root: &Root, network: Network) -> Facts {
        let mut facts = Facts::default();
        gather(root, &Spec { network, ..Spec::default() }, &mut facts).expect("facts");
        facts
    }

    #[test]
    fn network_file_of_the_primary_interface_is_found() {
        let (_folder, root) = machine(&[
            ("/sys/class/net/eth0/address", "00:0d:3a:aa:bb:cc\n"),
            ("/run/systemd/network/10-netplan-eth0.network", "[Match]\nMACAddress=00:0d:3a:aa:bb:cc\nName=eth0\n"),
            ("/usr/lib/systemd/network/80-all.network", "[Match]\nName=*\n"),
        ]);
        let facts = gathered(&root, Network { mtu: 1400, ..Network::default() });
        assert_eq!(facts.network_file.as_deref(), Some("10-netplan-eth0.network"));
        assert_eq!(gathered(&root, Network::default()).network_file, None, "not needed");
    }

    #[test]
    fn file_that_cloud_init_will_replace_does_not_count_at_a_first_boot() {
        let (folder, root) = machine(&[("/etc/systemd/network/99-dhcp-en.network", "[Match]\nName=e*\n")]);
        let found = |first_boot: bool| {
            let mut facts = Facts { first_boot, ..Facts::default() };
            let network = Network { mtu: 1400, ..Network::default() };
            gather(&root, &Spec { network, ..Spec::default() }, &mut facts).expect("facts");
            facts.network_file
        };
        assert_eq!(found(true).as_deref(), Some("99-dhcp-en.network"), "nothing writes another");
        std::fs::create_dir_all(folder.path().join("etc/cloud")).expect("made");
        assert_eq!(found(true), None);
        assert_eq!(found(false).as_deref(), Some("99-dhcp-en.network"));
    }

    #[test]
    fn masked_sysctl_file_sets_nothing() {
        let (folder, root) = machine(&[("/usr/lib/sysctl.d/50-a.conf", "net.ipv4.ip_forward=0\n")]);
        let network = || Network { plugin: "bridge".to_owned(), ..Network::default() };
        let file = |facts: Facts| facts.sysctls.get("net/ipv4/ip_forward").map(|found| found.file.clone());
        assert_eq!(file(gathered(&root, network())).as_deref(), Some("/usr/lib/sysctl.d/50-a.conf"));
        std::fs::create_dir_all(folder.path().join("etc/sysctl.d")).expect("made");
        std::os::unix::fs::symlink("/dev/null", folder.path().join("etc/sysctl.d/50-a.conf")).expect("a link");
        assert_eq!(file(gathered(&root, network())), None);
    }
}
