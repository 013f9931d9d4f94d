//! Runs the commands of the guide's section about a kind of image on a node of that kind, and compares their output with the page.

use std::path::Path;

use super::node::Node;

/// Commands of a `console` block with their documented output.
fn commands(page: &str, kind: &str) -> Vec<(String, String)> {
    let opening = format!("```console {kind}\n");
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in page.split(&opening).skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.split_inclusive('\n') {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => output.push_str(line),
                (None, None) => panic!("output without a command: {line}"),
            }
        }
    }
    commands
}

#[track_caller]
pub(crate) fn assert_section_is_true(node: &Node) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guides/kilnd-install.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let commands = commands(&page, node.kind.section());
    assert!(commands.len() >= 2, "{:?}: {commands:?}", node.kind);
    for (command, output) in commands {
        let ran = node.machine.run(&["sh", "-c", &command]);
        assert_eq!(ran.stdout, output, "{:?}: {command}{ran}", node.kind);
    }
}

#[test]
fn commands_are_read_with_their_output() {
    let page = "x\n```console a\n$ one\n1\n2\n$ two\n```\n```console b\n$ three\n```\n";
    let read = |kind| commands(page, kind);
    let pair = |command: &str, output: &str| (command.to_owned(), output.to_owned());
    assert_eq!(read("a"), [pair("one\n", "1\n2\n"), pair("two\n", "")]);
    assert_eq!(read("b"), [pair("three\n", "")]);
}
