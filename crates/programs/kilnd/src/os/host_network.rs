//! Pods that use the network of the host, found without the API server: processes in the network namespace of the first process and in the
//! control group of a pod. The kubelet names the folder of a pod's logs `<namespace>_<name>_<uid>`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Pods on the host network, as `namespace/name`, sorted. A pod whose log folder is missing is listed by its UID. Empty if the
/// caller may not see the namespaces of other processes.
pub fn host_network_pods(proc: &Path, logs: &Path) -> Vec<String> {
    let network = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let Some(host) = network(&proc.join("1")) else { return Vec::new() };
    let processes = fs::read_dir(proc).into_iter().flatten().flatten().map(|entry| entry.path());
    let uids: BTreeSet<String> = processes
        .filter(|process| network(process).as_ref() == Some(&host))
        .filter_map(|process| pod_uid(&fs::read_to_string(process.join("cgroup")).ok()?))
        .collect();
    if uids.is_empty() {
        return Vec::new();
    }
    let folders: Vec<String> = fs::read_dir(logs)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let name = |uid: String| {
        let folder = folders.iter().find_map(|folder| folder.strip_suffix(&uid)?.strip_suffix('_'));
        // Neither part can contain an underscore.
        folder.map_or(uid, |name| name.replacen('_', "/", 1))
    };
    let names: BTreeSet<String> = uids.into_iter().map(name).collect();
    names.into_iter().collect()
}

/// The UID of the pod in `/proc/PID/cgroup`: a part `pod<uid>` (cgroupfs) or `kubepods-…-pod<uid>.slice` (systemd, with underscores) below
/// `kubepods`.
fn pod_uid(cgroup: &str) -> Option<String> {
    let path = cgroup.lines().find_map(|line| line.split_once("/kubepods").map(|(_, path)| path))?;
    let part = path.split('/').find_map(|part| {
        // From the end, because `kubepods` contains `pod`, too.
        let (before, uid) = part.rsplit_once("pod")?;
        (before.is_empty() || before.ends_with('-')).then_some(uid)
    })?;
    let uid = part.trim_end_matches(".slice").replace('_', "-");
    (!uid.is_empty()).then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const UID: &str = "0f8a2d6c-9d9b-4c11-a0f6-2f4f5b1d3c77";

    #[test]
    fn pod_uids_are_found_for_both_cgroup_drivers_and_versions() {
        let systemd = UID.replace('-', "_");
        for line in [
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-1.scope"
            ),
            format!("0::/kubepods.slice/kubepods-pod{systemd}.slice/cri-containerd-1.scope"),
            format!("1:name=systemd:/kubepods/besteffort/pod{UID}/1\n0::/"),
            format!("4:memory:/kubepods/pod{UID}/1"),
        ] {
            assert_eq!(pod_uid(&line).as_deref(), Some(UID), "{line}");
        }
        for line in ["0::/system.slice/containerd.service", "0::/kubepods.slice", "0::/init.scope", ""] {
            assert_eq!(pod_uid(line), None, "{line}");
        }
    }

    #[test]
    fn only_pods_on_the_host_network_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (proc, logs) = (folder.path().join("proc"), folder.path().join("pods"));
        let process = |number: u32, network: &str, cgroup: &str| {
            let path = proc.join(number.to_string());
            fs::create_dir_all(path.join("ns")).expect("a folder");
            symlink(network, path.join("ns/net")).expect("a link");
            fs::write(path.join("cgroup"), cgroup).expect("written");
        };
        process(1, "net:[1]", "0::/init.scope");
        process(7, "net:[1]", &format!("0::/kubepods/pod{UID}/a"));
        process(8, "net:[1]", &format!("0::/kubepods/pod{UID}/b"));
        process(9, "net:[2]", "0::/kubepods/poduid-of-another/a");
        process(10, "net:[1]", "0::/kubepods/podunnamed/a");
        fs::create_dir_all(logs.join(format!("kube-system_kube-proxy-x2x_{UID}"))).expect("a folder");
        assert_eq!(host_network_pods(&proc, &logs), ["kube-system/kube-proxy-x2x", "unnamed"]);
    }
}
