//! Disks of folders with the real overlayfs: machines do not see each other's changes, and a snapshot never changes.

mod bench;

use std::fs;
use std::process::Command;

use bench::Bench;
use kiln_local::{DiskPath, MachineKind, QemuImg};

/// A pool on a base with a few files.
async fn folders() -> Bench {
    Bench::new(MachineKind::Nspawn, QemuImg::default(), |folder| {
        let base = folder.join("base");
        sh(&format!(
            "mkdir -p {0}/etc {0}/dir/deep {0}/kept; cd {0}; chmod 755 .; echo base > etc/os; echo x > dir/x; echo y > dir/deep/y; \
             echo gone > gone; echo file > swapped; mkdir folded; echo f > folded/f; ln -s etc/os link; echo k > kept/k",
            base.display()
        ));
        base
    })
    .await
}

/// Runs a script in the root folder of a machine, and returns a list of all files afterwards.
async fn within(bench: &Bench, machine: &str, script: &str) -> String {
    let DiskPath::Folders { lower, upper, work } = bench.disk(machine).await else { panic!("not a disk of folders") };
    // overlayfs names the highest first.
    let lower: Vec<String> = lower.iter().rev().map(|path| path.display().to_string()).collect();
    let mount = bench.folder.path().join("mount");
    fs::create_dir_all(&mount).unwrap();
    let options = format!("lowerdir={},upperdir={},workdir={}", lower.join(":"), upper.display(), work.display());
    let mount = mount.display();
    sh(&format!(
        "mount -t overlay overlay -o {options} {mount}; cd {mount}; {script}\n\
         find . -printf '%P %y %m %U %l\\n' | sort; find . -type f | sort | xargs sha256sum"
    ))
}

/// Runs a script in a private mount namespace.
fn sh(script: &str) -> String {
    let output = Command::new("unshare").args(["--mount", "sh", "-euc", script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The changes that overlayfs records with marks: removed files, recreated folders, a file in place of a folder and the reverse.
const LIFE: &str = "echo new > new; rm gone; rm -r dir; mkdir dir; echo z > dir/z; rm swapped; mkdir swapped; \
                    echo s > swapped/s; rm -r folded; echo file > folded; chmod 700 etc; mv kept/k kept/moved; ln -s new other";

#[tokio::test]
async fn clone_has_the_donors_disk_and_neither_changes_the_other() {
    let bench = folders().await;
    let untouched = within(&bench, "workers_1", "").await;
    let donor = within(&bench, "workers_0", LIFE).await;
    assert_ne!(donor, untouched);
    assert_eq!(within(&bench, "workers_1", "").await, untouched, "the base was changed");
    bench.snapshot("workers_0", "c1").await;
    assert_eq!(within(&bench, "workers_0", "").await, donor, "the donor's disk changed");

    let donor_later = within(&bench, "workers_0", "echo later > later; rm new; echo changed > etc/os").await;
    bench.clone_of("c1", "1.0.0").await;
    assert_eq!(within(&bench, "workers_2", "").await, donor, "the clone differs from the snapshot");

    let clone = within(&bench, "workers_2", "echo clone > clone; rm dir/z; echo mine > etc/os").await;
    assert_eq!(within(&bench, "workers_0", "").await, donor_later);
    bench.snapshot("workers_2", "c2").await;
    bench.clone_of("c2", "1.0.1").await;
    assert_eq!(within(&bench, "workers_3", "").await, clone, "a clone of a clone");
    within(&bench, "workers_3", "rm -r etc dir").await;
    assert_eq!(within(&bench, "workers_2", "").await, clone);
    assert_eq!(within(&bench, "workers_1", "").await, untouched);
}

#[tokio::test]
async fn joining_a_long_chain_does_not_change_the_disk() {
    let bench = folders().await;
    within(&bench, "workers_0", LIFE).await;
    // Each round undoes or hides a change of the round before. Layers are joined right after the third round ran for the third time, so that no
    // later round hides its result.
    let rounds = [
        "echo round > round; rm -rf dir; echo was > dir",
        "rm round dir; mkdir dir round; echo d > dir/d; ln new hard; mkfifo pipe",
        "rm -r dir round; mkdir -p dir/deep; echo deep > dir/deep/y; rm -f pipe hard",
        "rm -r swapped; echo file > swapped; rm folded; mkdir folded; chmod 711 folded",
        "rm swapped; mkdir swapped; rm folded; ln -s x folded",
        "rm folded many; mkdir folded many; echo g > folded/g; echo m > many/m",
        "rm many/m; chmod 700 many",
    ];
    let mut most = 0;
    for round in 0..20 {
        let script = format!("{}; date -u -d @{round} > stamp", rounds[round % rounds.len()].replace("rm ", "rm -rf "));
        let before = within(&bench, "workers_0", &script).await;
        let name = format!("c{round}");
        bench.snapshot("workers_0", &name).await;
        assert_eq!(within(&bench, "workers_0", "").await, before, "round {round}");
        bench.forget(&name).await;
        most = most.max(bench.layers());
    }
    let below = bench.below("workers_0").await;
    assert!(below < 10, "{below} layers after 20 snapshots");
    assert!(most <= 19, "{most}");
    assert_eq!(bench.layers(), below + 2, "joined layers are left");
}

/// Most kernels mark such a folder as opaque, but they need not: the whiteout below it hides the base, until both are joined.
#[tokio::test]
async fn recreated_folder_hides_that_of_the_base_after_layers_are_joined() {
    let bench = folders().await;
    within(&bench, "workers_0", "rm -r dir").await;
    bench.snapshot("workers_0", "gone").await;
    within(&bench, "workers_0", "mkdir dir; echo d > dir/d").await;
    let DiskPath::Folders { upper, .. } = bench.disk("workers_0").await else { panic!("not a disk of folders") };
    let _ = rustix::fs::lremovexattr(upper.join("dir"), "trusted.overlay.opaque");
    let before = within(&bench, "workers_0", "").await;
    for round in 0..17 {
        bench.snapshot("workers_0", &format!("c{round}")).await;
    }
    assert!(bench.below("workers_0").await < 10);
    assert_eq!(within(&bench, "workers_0", "").await, before);
}
