//! Kernel settings in `sysctl.d` files, with the precedence of systemd-sysctl.

use std::collections::BTreeMap;

use crate::desired::path_of;
use crate::facts::ImageSysctl;

/// The folders of `sysctl.d` files, strongest first: a file replaces the files with the same name in later folders.
pub const FOLDERS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// Parses `(folder, name, text)` of all files, with the folders in the order of [`FOLDERS`]. Files of kiln are not the image's and are left out.
/// The result is by path below `/proc/sys`. Names with `*` are not resolved.
pub fn parse(files: &[(&str, String, String)]) -> BTreeMap<String, ImageSysctl> {
    let mut by_name: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (folder, name, text) in files {
        by_name.entry(name).or_insert((folder, text));
    }
    let is_own = |name: &str| name == "90-kiln.conf" || name == "05-kiln-network.conf";
    let mut found = BTreeMap::new();
    for (name, (folder, text)) in
        by_name.into_iter().filter(|(name, _)| name.strip_suffix(".conf").is_some() && !is_own(name))
    {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim().trim_start_matches('-'), value.trim().to_owned());
            if !key.contains('*') {
                found.insert(path_of(key), ImageSysctl { value, file: format!("{folder}/{name}") });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&'static str, &str, &str)]) -> BTreeMap<String, ImageSysctl> {
        let owned: Vec<_> =
            files.iter().map(|(folder, name, text)| (*folder, (*name).to_owned(), (*text).to_owned())).collect();
        parse(&owned)
    }

    #[test]
    fn last_file_wins_and_etc_replaces_usr() {
        let found = files(&[
            ("/etc/sysctl.d", "50-a.conf", "net.ipv4.ip_forward=0\n"),
            ("/etc/sysctl.d", "60-b.conf", "# comment\n-net/ipv4/ip_forward = 1\nnet.ipv4.conf.*.rp_filter = 2\n"),
            ("/usr/lib/sysctl.d", "60-b.conf", "net.ipv4.ip_forward = 0\nvm.swappiness = 1\n"),
        ]);
        let setting = ImageSysctl { value: "1".to_owned(), file: "/etc/sysctl.d/60-b.conf".to_owned() };
        assert_eq!(found, BTreeMap::from([("net/ipv4/ip_forward".to_owned(), setting)]));
    }

    #[test]
    fn own_files_are_not_the_images() {
        let own = [("/etc/sysctl.d", "90-kiln.conf", "a.b=1"), ("/etc/sysctl.d", "05-kiln-network.conf", "a.b=1")];
        assert_eq!(files(&own), BTreeMap::new());
        assert_eq!(files(&[("/etc/sysctl.d", "README", "a.b=1")]), BTreeMap::new());
    }
}
