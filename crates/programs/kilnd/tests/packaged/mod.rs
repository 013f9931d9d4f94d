//! A node that runs its own kubelet and containerd, and packages of the kilnd under test.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use packaging::{Architecture, Package, UNITS, deb, rpm, rpm_file_name};
use tempfile::TempDir;
use testkit::nspawn::{Blueprint, Machine};
use testkit::{Finished, TestDep, require, run};

use super::booted::stage::{IMAGE, KUBELET, Stage};

/// An argument that only the node's own unit has.
pub(crate) const OWN_ARGUMENT: &str = "--config=/etc/kubernetes/kubelet.yaml";

/// The services that must keep running.
const SERVICES: [&str; 2] = ["containerd.service", "kubelet.service"];

/// A booted node.
pub(crate) struct Node {
    pub(crate) machine: Machine,
    /// The home folder of rpm, with its database.
    home: TempDir,
}

impl Node {
    /// A node with Debian's containerd and a fake kubelet, both with their own units, and without kilnd.
    #[track_caller]
    pub(crate) fn boot(name: &str) -> Self {
        let unit = format!(
            "[Unit]\nDescription=kubelet\nWants=containerd.service\nAfter=containerd.service\n\
             [Service]\nExecStart=/usr/bin/kubelet {OWN_ARGUMENT}\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"
        );
        let wants = "/etc/systemd/system/multi-user.target.wants/kubelet.service";
        let mut blueprint = Blueprint::new(name)
            .executable("/usr/bin/kubelet", KUBELET)
            .file("/usr/lib/systemd/system/kubelet.service", unit)
            .link(wants, "/usr/lib/systemd/system/kubelet.service")
            .file("/usr/lib/kiln/image.json", IMAGE.replace("/usr/bin/stand-in-containerd", "/usr/bin/containerd"))
            .file("/var/lib/stand-in/.keep", "")
            .shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), PROGRAM)
            .scratch("/var/lib/containerd");
        for (path, text) in Stage::test_drop_ins() {
            blueprint = blueprint.file(&path, text);
        }
        let home = tempfile::tempdir().expect("a folder");
        // SQLite follows the link `/proc/ID/root` to the root of this process, so the database is here and not in the machine.
        std::fs::create_dir(home.path().join(".rpmdb")).expect("created");
        let node = Self { machine: blueprint.boot(), home };
        node.wait_for_services();
        node
    }

    /// Waits until both services run.
    #[track_caller]
    pub(crate) fn wait_for_services(&self) {
        for unit in SERVICES {
            self.machine.wait_for(unit, "active");
        }
    }

    /// Restarts both services, which must come up.
    #[track_caller]
    pub(crate) fn restart_services(&self) {
        for unit in SERVICES {
            let old = self.machine.property(unit, "MainPID");
            self.machine.shell(&format!("systemctl restart {unit}"));
            assert_eq!(self.machine.property(unit, "ActiveState"), "active", "{}", self.machine.journal(Some(unit)));
            assert_ne!(self.machine.property(unit, "MainPID"), old);
        }
    }

    /// The main processes of both services.
    #[track_caller]
    pub(crate) fn processes(&self) -> [String; 2] {
        SERVICES.map(|unit| {
            assert_eq!(self.machine.property(unit, "ActiveState"), "active", "{unit}");
            self.machine.property(unit, "MainPID")
        })
    }

    /// Whether the running kubelet has the arguments of the node's own unit.
    #[track_caller]
    pub(crate) fn own_configuration(&self) -> bool {
        // systemd reports the service as active before its process executes the program.
        let arguments = self.machine.wait_until("the kubelet runs", |machine| {
            let process = machine.property("kubelet.service", "MainPID");
            let arguments = machine.run(&["cat", &format!("/proc/{process}/cmdline")]).stdout;
            arguments.contains("/kubelet\0").then_some(arguments)
        });
        arguments.contains(OWN_ARGUMENT)
    }

    /// Asserts that no service of kilnd was started and that none has written anything.
    #[track_caller]
    pub(crate) fn assert_not_started(&self) {
        for unit in ["kiln-identity", "kiln-config", "kiln-watch"] {
            let journal = self.machine.journal(Some(unit));
            let state = self.machine.property(&format!("{unit}.service"), "ActiveState");
            assert_eq!((state.as_str(), journal.contains("kilnd")), ("inactive", false), "{unit}\n{journal}");
        }
        let written = self.machine.shell("find /run/kiln /etc/kiln -type f 2>/dev/null || true").stdout;
        assert_eq!(written, "");
    }

    /// Runs kilnd in the machine, which must succeed. Returns its output.
    #[track_caller]
    pub(crate) fn kilnd_output(&self, arguments: &[&str]) -> String {
        self.kilnd(arguments).success().stdout
    }

    /// Runs kilnd in the machine.
    #[track_caller]
    pub(crate) fn kilnd(&self, arguments: &[&str]) -> Finished {
        self.machine.run(&[&["/usr/bin/kilnd"], arguments].concat())
    }

    /// Everything that `kilnd enable` may create: paths, and the targets of links.
    #[track_caller]
    pub(crate) fn systemd_files(&self) -> String {
        let folders = "/etc/systemd /run/systemd/system.control /usr/lib/systemd/system /usr/local/lib/systemd";
        let list = format!("find {folders} -mindepth 1 -printf '%p %l\\n' 2>/dev/null | sort || true");
        self.machine.shell(&list).stdout
    }

    /// Asserts that systemd's files are those of an earlier [`Self::systemd_files`].
    #[track_caller]
    pub(crate) fn assert_systemd_files(&self, before: &str) {
        let after = self.systemd_files();
        let only = |one: &str, other: &str| -> Vec<String> {
            let known: BTreeSet<&str> = other.lines().collect();
            one.lines().filter(|line| !known.contains(line)).map(str::to_owned).collect()
        };
        let nothing = Vec::<String>::new();
        assert_eq!((only(&after, before), only(before, &after)), (nothing.clone(), nothing), "added and removed");
    }

    /// The checksums of all files in `/etc` outside of kiln's and systemd's folders. The machine id and the host name identify the machine.
    #[track_caller]
    pub(crate) fn etc_files(&self) -> String {
        let skipped = "-path /etc/kiln -o -path /etc/systemd -o -name '*-' -o -name machine-id -o -name hostname -o -name hosts \
                       -o -name .updated -o -name resolv.conf -o -path /etc/ssh";
        let list = format!("find /etc \\( {skipped} \\) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum");
        self.machine.shell(&list).stdout
    }

    /// Links in systemd's folder whose target does not exist.
    #[track_caller]
    pub(crate) fn dangling_links(&self) -> String {
        self.machine.shell("find /etc/systemd -xtype l -lname '*kiln*'").stdout
    }

    /// Installs or upgrades the Debian package.
    #[track_caller]
    pub(crate) fn dpkg_install(&self, version: &str) {
        self.dpkg(&package(version));
    }

    /// Upgrades to a version in which a drop-in of the kubelet has another name.
    #[track_caller]
    pub(crate) fn dpkg_install_renamed(&self, version: &str) {
        self.dpkg(&renamed(version));
    }

    /// Installs, upgrades or removes the RPM. Versions after 1.0 have another name for the kubelet's drop-in.
    #[track_caller]
    pub(crate) fn rpm(&self, action: &str, version: Option<&str>) -> Finished {
        let last = version.map_or("kilnd".into(), |version| {
            let package = if version.starts_with("1.0") { package(version) } else { renamed(version) };
            let file = self.home.path().join(rpm_file_name(&package));
            std::fs::write(&file, rpm(&package).expect("a package")).expect("written");
            file
        });
        let leader = self.machine.leader().expect("a running machine");
        let mut command = Command::new("nsenter");
        // In the machine's process namespace: systemd accepts no connection of an unknown process.
        command.arg(format!("--target={leader}")).args(["--pid", "--"]).arg(require(TestDep::Rpm));
        // rpm knows no other package of this root, not even the one with /bin/sh.
        command.arg(format!("--root=/proc/{leader}/root")).args(["--nodeps", action]).arg(last);
        command.env("HOME", self.home.path());
        run(command, Duration::from_mins(1))
    }

    fn dpkg(&self, package: &Package) {
        let file = format!("/root/kilnd_{}.deb", package.version);
        self.machine.write(&file, &deb(package).expect("a package"), 0o644);
        self.machine.shell(&format!("dpkg --install {file}"));
    }
}

/// Where the machine has the kilnd under test. Compressing its debug information would take longer than all the rest.
const PROGRAM: &str = "/opt/kilnd";

/// The package, with a script that becomes the kilnd under test.
pub(crate) fn package(version: &str) -> Package {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let program = format!("#!/bin/sh\nexec {PROGRAM} \"$@\"\n").into_bytes();
    Package::kilnd(&root, program, version, Architecture::Amd64).expect("a package")
}

/// The same, with another name for the kubelet's drop-in.
pub(crate) fn renamed(version: &str) -> Package {
    let mut package = package(version);
    let folder = format!("{UNITS}/kubelet.service.d/");
    let drop_in = package.files.iter_mut().find(|file| file.path.starts_with(&folder)).expect("a drop-in");
    drop_in.path = format!("{folder}zz-renamed.conf");
    package
}
