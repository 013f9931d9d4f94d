//! Runs the commands of the guide in a shell and compares their output with the page.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use support::program::PROGRAM;
use support::world::folder;
use testkit::guide::{Part, parts};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guides/node-config.md")
}

#[test]
fn guide_commands_print_the_documented_output() {
    let text = std::fs::read_to_string(page()).expect("docs/guides/node-config.md");
    let folder = folder();
    let programs = Path::new(PROGRAM).parent().expect("a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").expect("a search path"));
    let (mut ran, mut wanted) = (0, String::new());
    for part in parts(&text) {
        match part {
            Part::Text(text) => wanted.push_str(&text),
            Part::Typed { command, prints } => {
                // The shell runs in the private network, as kilnd does in the other tests.
                let mut shell = testkit::private().command("sh");
                let output = shell.args(["-c", &command]).current_dir(folder.path()).env("PATH", &path).output();
                let output = output.expect("a shell");
                let printed = String::from_utf8(output.stdout).expect("text");
                assert!(output.status.success(), "{command}{}", String::from_utf8_lossy(&output.stderr));
                let _ = write!(wanted, "$ {command}{printed}");
                ran += 1;
                assert!(
                    printed == prints || std::env::var_os("KILN_BLESS").is_some(),
                    "{command}printed\n{printed}\nexpected\n{prints}"
                );
            }
        }
    }
    assert!(ran >= 6, "{ran}");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(page(), wanted).expect("written");
    }
}
