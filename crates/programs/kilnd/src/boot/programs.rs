//! Checks which programs systemd would run, before the gate opens. A drop-in of the image that sorts after kiln's would start a kubelet that
//! kiln does not configure, and the node would look healthy.

use kiln_node_plan::layout::{self, KUBELET_UNIT, RUNTIME_UNIT};

use crate::apply::services;
use crate::node::Node;
use crate::os;
use crate::os::systemd::LoadedService;

/// kiln's drop-in of each service. systemd merges the drop-ins of a unit in the order of their names, wherever they are. This name sorts after
/// numbers, and after `override.conf`, which `systemctl edit` creates.
pub const DROP_IN: &str = "zz-kiln.conf";

/// A service that would run another program than that of the generation in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignProgram {
    #[error(
        "`{unit}` runs `{program}` instead of `{expected}`, because `{drop_in}` sets `ExecStart=`\nhint: remove `ExecStart=` from that file, or rename it so that it sorts before `{DROP_IN}`; then run `systemctl daemon-reload`"
    )]
    DropIn { unit: &'static str, program: String, expected: String, drop_in: String },
    #[error(
        "`{unit}` runs `{program}` instead of `{expected}`, because systemd has not loaded kiln's drop-in `{DROP_IN}`\nhint: install the package `kilnd` again and run `systemctl daemon-reload`"
    )]
    NoDropIn { unit: &'static str, program: String, expected: String },
}

/// Checks the services that the image has. If systemd does not answer, kilnd cannot tell, and only warns.
pub fn check(node: &Node) -> Result<(), ForeignProgram> {
    let Some(mut systemd) = services::client(node) else { return Ok(()) };
    for (unit, file) in [(KUBELET_UNIT, "kubelet"), (RUNTIME_UNIT, "containerd")] {
        match systemd.loaded_service(unit) {
            Ok(service) => check_service(unit, &layout::current(file), &service, |path| sets_exec_start(node, path))?,
            Err(error) => node.log.warn(format!("cannot check which program `{unit}` runs: {error}")),
        }
    }
    Ok(())
}

/// Whether a drop-in sets `ExecStart=`. An unreadable one does not count: it only serves to name the culprit.
fn sets_exec_start(node: &Node, path: &str) -> bool {
    let bytes: Result<_, os::Error> = node.root.read_if_exists(path);
    let bytes = bytes.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().any(|line| line.trim_start().split('=').next().is_some_and(|name| name.trim_end() == "ExecStart"))
}

fn check_service(
    unit: &'static str,
    expected: &str,
    service: &LoadedService,
    sets_exec_start: impl Fn(&str) -> bool,
) -> Result<(), ForeignProgram> {
    // Not every machine has both services.
    if service.load != "loaded" || service.programs == [expected] {
        return Ok(());
    }
    let (program, expected) = (service.programs.join(", "), expected.to_owned());
    let own = service.drop_ins.iter().position(|path| path.rsplit('/').next() == Some(DROP_IN));
    // In the order in which systemd merges them, so the last one wins.
    let after = own.map_or(&[][..], |own| &service.drop_ins[own + 1..]);
    Err(match after.iter().rfind(|path| sets_exec_start(path)) {
        Some(drop_in) => ForeignProgram::DropIn { unit, program, expected, drop_in: drop_in.clone() },
        None => ForeignProgram::NoDropIn { unit, program, expected },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "/etc/kiln/current/kubelet";

    fn loaded(program: &str, drop_ins: &[&str]) -> LoadedService {
        LoadedService {
            load: "loaded".to_owned(),
            programs: vec![program.to_owned()],
            drop_ins: drop_ins.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn checked(service: &LoadedService) -> Result<(), ForeignProgram> {
        check_service(KUBELET_UNIT, EXPECTED, service, |path| path.contains("exec"))
    }

    #[test]
    fn service_that_runs_the_generation_or_does_not_exist_passes() {
        assert_eq!(checked(&loaded(EXPECTED, &["/usr/zz-kiln.conf"])), Ok(()));
        let missing = LoadedService { load: "not-found".to_owned(), programs: Vec::new(), drop_ins: Vec::new() };
        assert_eq!(checked(&missing), Ok(()));
    }

    #[test]
    fn error_names_the_last_drop_in_that_sets_the_program() {
        let drop_ins = ["/etc/10-exec.conf", "/usr/zz-kiln.conf", "/etc/zzz-exec.conf", "/etc/zzzz-limits.conf"];
        let message = checked(&loaded("/usr/bin/kubelet", &drop_ins)).expect_err("another program").to_string();
        let wanted = "`kubelet.service` runs `/usr/bin/kubelet` instead of `/etc/kiln/current/kubelet`, because `/etc/zzz-exec.conf` sets \
                      `ExecStart=`\n";
        assert!(message.starts_with(wanted), "{message}");
        let message = checked(&loaded("/usr/bin/kubelet", &drop_ins[..1])).expect_err("no drop-in").to_string();
        assert!(message.contains("has not loaded kiln's drop-in `zz-kiln.conf`"), "{message}");
    }
}
