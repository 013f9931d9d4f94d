//! Disks of folders under a real overlayfs: what one machine writes no other sees, and a copy stays what it was.

mod bench;

use std::fs;
use std::process::Command;

use bench::Bench;
use kiln_local::{DiskPath, MachineKind, QemuImg};

/// A pool on a base of a few files.
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

/// Runs a script in the root of a machine, and says what is there afterwards.
async fn within(bench: &Bench, machine: &str, script: &str) -> String {
    let DiskPath::Folders { lower, upper, work } = bench.disk(machine).await else { panic!("no folders") };
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

/// In mounts of its own, which end with it.
fn sh(script: &str) -> String {
    let output = Command::new("unshare").args(["--mount", "sh", "-euc", script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Everything that overlayfs writes down in its own way: what is gone, folders made anew, one kind in place of another.
const LIFE: &str = "echo new > new; rm gone; rm -r dir; mkdir dir; echo z > dir/z; rm swapped; mkdir swapped; \
                    echo s > swapped/s; rm -r folded; echo file > folded; chmod 700 etc; mv kept/k kept/moved; ln -s new other";

#[tokio::test]
async fn a_clone_is_the_donor_as_it_was_and_neither_writes_to_the_other() {
    let bench = folders().await;
    let untouched = within(&bench, "workers_1", "").await;
    let donor = within(&bench, "workers_0", LIFE).await;
    assert_ne!(donor, untouched);
    assert_eq!(within(&bench, "workers_1", "").await, untouched, "the base is shared and never written");
    bench.snapshot("workers_0", "c1").await;
    assert_eq!(within(&bench, "workers_0", "").await, donor, "the donor has its disk");

    let donor_later = within(&bench, "workers_0", "echo later > later; rm new; echo changed > etc/os").await;
    bench.clone_of("c1", "1.0.0").await;
    assert_eq!(within(&bench, "workers_2", "").await, donor, "the clone is what the donor was");

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
async fn a_long_chain_is_joined_and_nothing_on_the_disk_changes() {
    let bench = folders().await;
    within(&bench, "workers_0", LIFE).await;
    // What each round does undoes or covers something of the round before. Layers are joined after the third of them came for the third
    // time, so that nothing later covers what it made anew.
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
    assert_eq!(bench.layers(), below + 2, "what was joined is gone");
}

/// Most kernels mark such a folder as opaque, and none has to: the whiteout below it hides the base until both are joined.
#[tokio::test]
async fn a_folder_made_anew_hides_that_of_the_base_also_when_layers_are_joined() {
    let bench = folders().await;
    within(&bench, "workers_0", "rm -r dir").await;
    bench.snapshot("workers_0", "gone").await;
    within(&bench, "workers_0", "mkdir dir; echo d > dir/d").await;
    let DiskPath::Folders { upper, .. } = bench.disk("workers_0").await else { panic!("no folders") };
    let _ = rustix::fs::lremovexattr(upper.join("dir"), "trusted.overlay.opaque");
    let before = within(&bench, "workers_0", "").await;
    for round in 0..17 {
        bench.snapshot("workers_0", &format!("c{round}")).await;
    }
    assert!(bench.below("workers_0").await < 10);
    assert_eq!(within(&bench, "workers_0", "").await, before);
}
