//! The MTU of the primary network interface.
//!
//! The running kernel gets it at once. For later boots it is a drop-in of the `.network` file with which systemd-networkd configures the
//! interface. Not a `.link` file: udev reads only the first one that matches, so it would replace the file of the system
//! (`99-default.link`) and with it the naming of interfaces. The drop-in has no `[Match]` section, so it needs no condition that an older
//! systemd does not know (`Kind=` is unknown to systemd 249).

use std::collections::BTreeSet;

use super::Setting;
use super::draft::Draft;
use crate::file::DesiredFile;
use crate::network_file;

pub(super) fn render(draft: &mut Draft<'_>) {
    let mtu = draft.spec.network.mtu;
    if mtu == 0 {
        return;
    }
    let interface = &draft.facts.image.interface;
    // netplan and cloud-init may write their files later in a first boot. A drop-in without its file has no effect.
    let mut files = BTreeSet::from(network_file::written_later(interface));
    files.extend(draft.facts.network_file.clone());
    let path = format!("/sys/class/net/{interface}/mtu");
    for name in files {
        let path = format!("/etc/systemd/network/{name}.d/90-kiln.conf");
        draft.elsewhere(DesiredFile::plain(path, format!("[Link]\nMTUBytes={mtu}\n")));
    }
    // The interface may appear later in the boot; then systemd-networkd sets its MTU.
    draft.desired.kernel.push(Setting { path, value: mtu.to_string(), optional: true, module: None });
}
