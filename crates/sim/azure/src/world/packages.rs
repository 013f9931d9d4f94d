//! The packages of the default pool: an Ubuntu 18.04 image of late 2020, and the 41 updates that kamino's walkthrough mentions for January
//! 2021. The package names are from that distribution, but the walkthrough does not list which ones it meant.

use std::collections::BTreeMap;

use super::contents_spec::Updates;

/// The kernel of the image.
pub(crate) const OLD_KERNEL: &str = "5.4.0-1032-azure";
/// The kernel after the update.
const NEW_KERNEL: &str = "5.4.0-1036-azure";

/// Name, version in the image, newer version.
const BEHIND: [(&str, &str, &str); 41] = [
    ("apport", "2.20.9-0ubuntu7.20", "2.20.9-0ubuntu7.21"),
    ("apt", "1.6.12ubuntu0.1", "1.6.12ubuntu0.2"),
    ("apt-utils", "1.6.12ubuntu0.1", "1.6.12ubuntu0.2"),
    ("bind9-host", "9.11.3+dfsg-1ubuntu1.13", "9.11.3+dfsg-1ubuntu1.14"),
    ("ca-certificates", "20201027ubuntu0.18.04.1", "20210119~18.04.1"),
    ("cloud-init", "20.3-2-g371b392c-0ubuntu1~18.04.1", "20.4.1-0ubuntu1~18.04.1"),
    ("containerd", "1.3.3-0ubuntu1~18.04.2", "1.3.3-0ubuntu1~18.04.4"),
    ("curl", "7.58.0-2ubuntu3.10", "7.58.0-2ubuntu3.12"),
    ("dnsutils", "9.11.3+dfsg-1ubuntu1.13", "9.11.3+dfsg-1ubuntu1.14"),
    ("fwupd", "1.2.10-1ubuntu2~ubuntu18.04.5", "1.2.14-0~18.04.1"),
    ("glib-networking", "2.56.0-1", "2.56.0-1ubuntu0.1"),
    ("grub-common", "2.02-2ubuntu8.20", "2.02-2ubuntu8.21"),
    ("grub-pc", "2.02-2ubuntu8.20", "2.02-2ubuntu8.21"),
    ("initramfs-tools", "0.130ubuntu3.11", "0.130ubuntu3.12"),
    ("intel-microcode", "3.20201110.0ubuntu0.18.04.1", "3.20201110.0ubuntu0.18.04.2"),
    ("krb5-locales", "1.16-2ubuntu0.1", "1.16-2ubuntu0.2"),
    ("libapt-pkg5.0", "1.6.12ubuntu0.1", "1.6.12ubuntu0.2"),
    ("libc-bin", "2.27-3ubuntu1.3", "2.27-3ubuntu1.4"),
    ("libc6", "2.27-3ubuntu1.3", "2.27-3ubuntu1.4"),
    ("libcurl4", "7.58.0-2ubuntu3.10", "7.58.0-2ubuntu3.12"),
    ("libdns1100", "9.11.3+dfsg-1ubuntu1.13", "9.11.3+dfsg-1ubuntu1.14"),
    ("libgnutls30", "3.5.18-1ubuntu1.4", "3.5.18-1ubuntu1.5"),
    ("libgssapi-krb5-2", "1.16-2ubuntu0.1", "1.16-2ubuntu0.2"),
    ("libisc169", "9.11.3+dfsg-1ubuntu1.13", "9.11.3+dfsg-1ubuntu1.14"),
    ("libkrb5-3", "1.16-2ubuntu0.1", "1.16-2ubuntu0.2"),
    ("libldap-2.4-2", "2.4.45+dfsg-1ubuntu1.7", "2.4.45+dfsg-1ubuntu1.9"),
    ("libp11-kit0", "0.23.9-2", "0.23.9-2ubuntu0.1"),
    ("libpython3.6", "3.6.9-1~18.04ubuntu1.1", "3.6.9-1~18.04ubuntu1.3"),
    ("libssl1.1", "1.1.1-1ubuntu2.1~18.04.6", "1.1.1-1ubuntu2.1~18.04.7"),
    ("libsystemd0", "237-3ubuntu10.43", "237-3ubuntu10.44"),
    ("linux-azure", "5.4.0.1032.14", "5.4.0.1036.20"),
    ("linux-base", "4.5ubuntu1.2", "4.5ubuntu1.3"),
    ("openssl", "1.1.1-1ubuntu2.1~18.04.6", "1.1.1-1ubuntu2.1~18.04.7"),
    ("python3.6", "3.6.9-1~18.04ubuntu1.1", "3.6.9-1~18.04ubuntu1.3"),
    ("snapd", "2.46.1+18.04", "2.48+18.04"),
    ("sudo", "1.8.21p2-3ubuntu1.3", "1.8.21p2-3ubuntu1.4"),
    ("systemd", "237-3ubuntu10.43", "237-3ubuntu10.44"),
    ("tar", "1.29b-2ubuntu0.1", "1.29b-2ubuntu0.2"),
    ("tzdata", "2020d-0ubuntu0.18.04", "2020f-0ubuntu0.18.04"),
    ("udev", "237-3ubuntu10.43", "237-3ubuntu10.44"),
    ("walinuxagent", "2.2.45-0ubuntu1~18.04.1", "2.2.52-0ubuntu1~18.04.1"),
];

/// Name and version of packages without updates.
const CURRENT: [(&str, &str); 11] = [
    ("bash", "4.4.18-2ubuntu1.2"),
    ("coreutils", "8.28-1ubuntu1"),
    ("ebtables", "2.0.10.4-3.5ubuntu2.18.04.3"),
    ("ethtool", "1:4.15-0ubuntu1"),
    ("iptables", "1.6.1-2ubuntu2"),
    ("jq", "1.5+dfsg-2"),
    ("netplan.io", "0.99-0ubuntu3~18.04.3"),
    ("nfs-common", "1:1.3.4-2.1ubuntu5.3"),
    ("openssh-server", "1:7.6p1-4ubuntu0.3"),
    ("socat", "1.7.3.2-2ubuntu2"),
    ("util-linux", "2.31.1-0.4ubuntu3.7"),
];

/// The packages of the image.
pub(crate) fn installed() -> BTreeMap<String, String> {
    let behind = BEHIND.iter().map(|(name, old, _)| (*name, *old));
    behind.chain(CURRENT).map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

/// The available updates.
pub(crate) fn updates() -> Updates {
    Updates {
        kernel: Some(NEW_KERNEL.to_owned()),
        packages: BEHIND.iter().map(|(name, _, new)| ((*name).to_owned(), (*new).to_owned())).collect(),
    }
}

/// The images that the pods of the default pool use.
pub(crate) fn images() -> Vec<String> {
    [
        "azure-cni-networkmonitor:v1.2.0",
        "azuredisk-csi:v1.0.0",
        "coredns:1.8.0",
        "ip-masq-agent:v2.5.0",
        "kube-proxy:v1.33.0",
        "node-agent:1",
        "pause:3.9",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_has_41_outdated_packages() {
        let (installed, updates) = (installed(), updates());
        assert_eq!(installed.len(), BEHIND.len() + CURRENT.len());
        let behind = updates.packages.iter().filter(|(name, version)| installed.get(*name) != Some(version)).count();
        assert_eq!(behind, 41);
    }
}
