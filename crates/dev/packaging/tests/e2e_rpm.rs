//! Debian's rpm reads, verifies, installs, upgrades and removes our RPM.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use packaging::{Architecture, Entry, Package, Scripts, rpm, rpm_file_name};
use tempfile::TempDir;
use testkit::{Finished, TestDep, require, run};

fn package(version: &str) -> Package {
    let entry = |path: &str, mode, content: &str| Entry { path: path.to_owned(), mode, content: content.into() };
    Package {
        name: "kilnd".to_owned(),
        version: version.to_owned(),
        architecture: Architecture::Amd64,
        description: "a placeholder".to_owned(),
        files: vec![
            entry("usr/bin/kilnd", 0o755, "program"),
            entry("usr/lib/kiln/units/kubelet.service.d/kiln.conf", 0o644, "[Unit]\n"),
            entry("etc/kiln/kilnd.json", 0o600, "{}"),
        ],
        links: vec![("usr/bin/other".to_owned(), "kilnd".to_owned())],
        scripts: Scripts {
            rpm_preun: "echo preun $1 >&2\n",
            rpm_posttrans: "echo posttrans >&2\n",
            ..Scripts::default()
        },
    }
}

#[track_caller]
fn rpm_command(home: &Path, arguments: &[&str], last: &Path) -> Finished {
    let mut command = Command::new(require(TestDep::Rpm));
    // rpm keeps its database in the home folder.
    command.args(arguments).arg(last).env("HOME", home);
    run(command, Duration::from_mins(1))
}

#[track_caller]
fn written(folder: &Path, package: &Package) -> std::path::PathBuf {
    let file = folder.join(rpm_file_name(package));
    fs::write(&file, rpm(package).unwrap()).unwrap();
    file
}

#[test]
fn rpm_verifies_the_digests_and_lists_files_modes_links_and_scriptlets() {
    let folder = TempDir::new().unwrap();
    let file = written(folder.path(), &package("1.2.3"));
    assert_eq!(file.file_name().unwrap(), "kilnd-1.2.3-1.x86_64.rpm");
    let checked = rpm_command(folder.path(), &["--checksig", "--verbose"], &file).success().stdout;
    assert!(checked.contains("Header SHA256 digest: OK") && checked.contains("Payload SHA256 digest: OK"), "{checked}");
    let listed = rpm_command(folder.path(), &["--query", "--list", "--verbose", "--package"], &file).success().stdout;
    for (start, end) in [
        ("-rwxr-xr-x", "/usr/bin/kilnd"),
        ("-rw-------", "/etc/kiln/kilnd.json"),
        ("drwxr-xr-x", "/usr/lib/kiln"),
        ("drwxr-xr-x", "/usr/lib/kiln/units/kubelet.service.d"),
        ("lrwxrwxrwx", "/usr/bin/other -> kilnd"),
    ] {
        let found =
            listed.lines().any(|line| line.starts_with(start) && line.ends_with(end) && line.contains(" root "));
        assert!(found, "{end}: {listed}");
    }
    assert!(!listed.lines().any(|line| line.ends_with(" /usr/bin")), "shared folders belong to no package: {listed}");
    let scripts = rpm_command(folder.path(), &["--query", "--scripts", "--package"], &file).success().stdout;
    assert!(scripts.contains("preuninstall scriptlet (using /bin/sh)") && scripts.contains("posttrans"), "{scripts}");
    let required = rpm_command(folder.path(), &["--query", "--requires", "--package"], &file).success().stdout;
    assert!(required.lines().any(|line| line == "/bin/sh"), "{required}");
    let configuration = rpm_command(folder.path(), &["--query", "--configfiles", "--package"], &file).success().stdout;
    assert_eq!(configuration, "/etc/kiln/kilnd.json\n");
    let described = rpm_command(folder.path(), &["--query", "--info", "--package"], &file).success().stdout;
    assert!(
        described.contains("Architecture: x86_64") && described.contains("License     : Apache-2.0"),
        "{described}"
    );

    // One changed byte.
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_ne!(rpm_command(folder.path(), &["--checksig"], &file).code, Some(0));
}

#[test]
fn rpm_installs_upgrades_verifies_and_removes_it() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    // Scriptlets run in the root, which needs a shell and its libraries.
    for folder in ["etc", "usr/bin", "usr/lib"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    copy_with_libraries(Path::new("/bin/sh"), &root);
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let root_option = format!("--root={}", root.display());
    let act = |arguments: &[&str], last: &Path| {
        rpm_command(folder.path(), &[&[root_option.as_str(), "--nodeps"], arguments].concat(), last)
    };

    let installed = act(&["--install"], &written(folder.path(), &package("1.2.3"))).success();
    assert!(installed.stderr.contains("posttrans"), "{installed}");
    assert_eq!(fs::read_to_string(at("/usr/bin/kilnd")).unwrap(), "program");
    assert_eq!(fs::read_link(at("/usr/bin/other")).unwrap(), Path::new("kilnd"));
    assert_eq!(fs::metadata(at("/etc/kiln/kilnd.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(act(&["--verify"], Path::new("kilnd")).success().stdout, "");

    fs::write(at("/etc/kiln/kilnd.json"), "{\"changed\": 1}").unwrap();
    let mut newer = package("1.2.4");
    newer.files[1].path = "usr/lib/kiln/units/kubelet.service.d/other.conf".to_owned();
    let upgraded = act(&["--upgrade"], &written(folder.path(), &newer)).success();
    assert!(upgraded.stderr.contains("preun 1") && upgraded.stderr.contains("posttrans"), "{upgraded}");
    assert!(at("/usr/lib/kiln/units/kubelet.service.d/other.conf").exists());
    assert!(!at("/usr/lib/kiln/units/kubelet.service.d/kiln.conf").exists());
    assert_eq!(fs::read_to_string(at("/etc/kiln/kilnd.json")).unwrap(), "{\"changed\": 1}", "the change is kept");

    let removed = act(&["--erase"], Path::new("kilnd")).success();
    assert!(removed.stderr.contains("preun 0"), "{removed}");
    assert!(!at("/usr/lib/kiln").exists() && !at("/usr/bin/other").exists());
}

/// Copies a program with the libraries that `ldd` lists.
fn copy_with_libraries(program: &Path, root: &Path) {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for file in libraries.chain([program]) {
        let copy = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
}

#[test]
fn rpm_does_not_depend_on_the_order_of_files() {
    let mut other = package("1.2.3");
    other.files.reverse();
    assert!(rpm(&package("1.2.3")).unwrap() == rpm(&other).unwrap());
    other.files[0].content.push(b'x');
    assert!(rpm(&package("1.2.3")).unwrap() != rpm(&other).unwrap());
}
