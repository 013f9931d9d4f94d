//! dpkg-deb reads a package with a placeholder program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use packaging::{Architecture, Entry, Package, Scripts, deb};
use tempfile::TempDir;

fn package() -> Package {
    let entry = |path: &str, mode, content: &str| Entry { path: path.to_owned(), mode, content: content.into() };
    Package {
        name: "kilnd".to_owned(),
        version: "1.2.3".to_owned(),
        architecture: Architecture::Amd64,
        description: "a placeholder".to_owned(),
        files: vec![
            entry("usr/bin/kilnd", 0o755, "program"),
            entry("usr/lib/systemd/system/kiln.service", 0o644, "[Unit]\n"),
            entry("etc/kiln/kilnd.json", 0o644, "{}"),
        ],
        links: vec![("usr/lib/systemd/system/x.target.wants/kiln.service".to_owned(), "../kiln.service".to_owned())],
        scripts: Scripts { prerm: "#!/bin/sh\nexit 0\n", ..Scripts::default() },
    }
}

fn dpkg(arguments: &[&str], file: &std::path::Path) -> String {
    let output = Command::new("dpkg-deb").args(arguments).arg(file).output().expect("dpkg-deb is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn dpkg_reads_name_files_modes_links_and_configuration_files() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kilnd.deb");
    fs::write(&file, deb(&package()).unwrap()).unwrap();
    let fields = dpkg(&["--field"], &file);
    for line in ["Package: kilnd", "Version: 1.2.3", "Architecture: amd64", "Installed-Size: 3"] {
        assert!(fields.lines().any(|field| field == line), "{line} is not in {fields}");
    }
    let list = dpkg(&["--contents"], &file);
    let line = |path: &str| {
        list.lines().find(|line| line.contains(path)).unwrap_or_else(|| panic!("{path}: {list}")).to_owned()
    };
    assert!(line("usr/bin/kilnd").starts_with("-rwxr-xr-x 0/0"), "{list}");
    assert!(line("x.target.wants/kiln.service").ends_with("-> ../kiln.service"), "{list}");

    let unpacked = folder.path().join("root");
    let status = Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&unpacked).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(unpacked.join("usr/bin/kilnd")).unwrap(), "program");
    assert_eq!(
        fs::read_to_string(unpacked.join("usr/lib/systemd/system/x.target.wants/kiln.service")).unwrap(),
        "[Unit]\n"
    );
    let control = folder.path().join("control");
    assert!(Command::new("dpkg-deb").arg("--control").arg(&file).arg(&control).status().unwrap().success());
    assert_eq!(fs::read_to_string(control.join("prerm")).unwrap(), package().scripts.prerm);
    assert_eq!(fs::metadata(control.join("prerm")).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(!control.join("postinst").exists(), "empty scripts are left out");
    assert_eq!(fs::read_to_string(control.join("conffiles")).unwrap(), "/etc/kiln/kilnd.json\n");
}

#[test]
fn order_of_files_does_not_change_the_package() {
    let mut other = package();
    other.files.reverse();
    assert!(deb(&package()).unwrap() == deb(&other).unwrap());
    other.files[0].content.push(b'x');
    assert!(deb(&package()).unwrap() != deb(&other).unwrap());
}
