//! The effective units of kubelet and containerd: whether systemd would run what kiln configures, and what would stop it before.

use super::{Finding, Setting, Severity, Tree, UnitFile};
use crate::layout::{CURRENT, KUBELET_UNIT, READY, RUNTIME_UNIT};

/// Units of kiln that must start by themselves.
const OWN: [&str; 3] = ["kiln-identity.service", "kiln-config.service", "kiln-watch.service"];
/// Folders whose content only exists on a running machine.
const RUN_TIME: [&str; 4] = ["/run/", "/proc/", "/sys/", "/dev/"];
/// Shells and interpreters that get a script as their argument.
const INTERPRETERS: [&str; 6] = ["sh", "bash", "dash", "python3", "python", "perl"];
const FIX_DROP_IN: &str = "delete the setting, or reset it with an empty assignment in a drop-in that sorts last";

/// A unit that kiln configures, and the programs that its drop-in starts.
struct Managed {
    unit: &'static str,
    program: &'static str,
    ids: Ids,
}

/// The ids of the findings about a unit.
struct Ids {
    missing: &'static str,
    drop_in: &'static str,
    exec: &'static str,
    condition: &'static str,
    environment: &'static str,
    pre: &'static str,
    ordering: &'static str,
}

const MANAGED: [Managed; 2] = [
    Managed {
        unit: KUBELET_UNIT,
        program: "/kubelet",
        ids: Ids {
            missing: "kubelet-unit-missing",
            drop_in: "kubelet-drop-in-missing",
            exec: "kubelet-exec-overridden",
            condition: "kubelet-condition",
            environment: "kubelet-environment-file",
            pre: "kubelet-exec-start-pre",
            ordering: "kubelet-waits-for-network",
        },
    },
    Managed {
        unit: RUNTIME_UNIT,
        program: "/containerd",
        ids: Ids {
            missing: "containerd-unit-missing",
            drop_in: "containerd-drop-in-missing",
            exec: "containerd-exec-overridden",
            condition: "containerd-condition",
            environment: "containerd-environment-file",
            pre: "containerd-exec-start-pre",
            ordering: "containerd-waits-for-network",
        },
    },
];

pub(super) fn check(tree: &dyn Tree, findings: &mut Vec<Finding>) {
    for managed in &MANAGED {
        check_unit(tree, managed, findings);
    }
    for unit in OWN {
        let is_masked = UnitFile::read(tree, unit).is_none_or(|file| file.is_masked);
        if is_masked || !tree.is_wanted(unit) {
            findings.push(Finding {
                id: "kiln-unit-disabled",
                severity: Severity::Blocker,
                path: unit.to_owned(),
                message: format!("`{unit}` is not enabled, so kilnd does not configure the machine"),
                fix: format!("install the kilnd package and enable `{unit}`"),
            });
        }
    }
}

fn check_unit(tree: &dyn Tree, managed: &Managed, findings: &mut Vec<Finding>) {
    let (unit, ids) = (managed.unit, &managed.ids);
    let blocker = |id, path: &str, message: String, fix: String| Finding {
        id,
        severity: Severity::Blocker,
        path: path.to_owned(),
        message,
        fix,
    };
    let Some(file) = UnitFile::read(tree, unit).filter(|file| !file.is_masked) else {
        let masked = UnitFile::read(tree, unit).is_some();
        let what = if masked { "is masked" } else { "does not exist" };
        let fix = if masked { format!("run `systemctl unmask {unit}`") } else { format!("install a `{unit}`") };
        findings.push(blocker(ids.missing, unit, format!("`{unit}` {what}"), fix));
        return;
    };
    check_exec(&file, managed, findings);
    check_conditions(tree, &file, managed, findings);
    for setting in file.list("Service", "EnvironmentFile") {
        if let Some(path) = missing_environment_file(tree, &setting.value) {
            let message =
                format!("`{unit}` does not start without `{path}` (`EnvironmentFile=` in `{}`)", setting.file);
            let fix = format!("create the file, write `EnvironmentFile=-{path}`, or {FIX_DROP_IN}");
            findings.push(blocker(ids.environment, path, message, fix));
        }
    }
    for setting in file.list("Service", "ExecStartPre").into_iter().chain(file.list("Service", "ExecCondition")) {
        if let Some(reason) = failing(tree, &setting.value) {
            let Setting { key, value, file, .. } = setting;
            let message = format!("`{unit}` does not start: {reason} (`{key}={value}` in `{file}`)");
            findings.push(blocker(ids.pre, file, message, format!("install what the command needs, or {FIX_DROP_IN}")));
        }
    }
    for setting in file.list("Unit", "After") {
        if setting.value.split_whitespace().any(|unit| unit == "network-online.target") {
            findings.push(Finding {
                id: ids.ordering,
                severity: Severity::Note,
                path: setting.file.clone(),
                message: format!("`{unit}` waits for `network-online.target` (`After=` in `{}`)", setting.file),
                fix: "remove `network-online.target` from the unit file; a drop-in cannot remove an ordering"
                    .to_owned(),
            });
        }
    }
}

/// Checks that systemd runs exactly the program of the generation in force.
fn check_exec(file: &UnitFile, managed: &Managed, findings: &mut Vec<Finding>) {
    let Managed { unit, program, ids } = managed;
    let own = |setting: &&Setting| {
        setting.value.trim_start_matches(['-', '@', ':', '+', '!']).starts_with(&format!("{CURRENT}{program}"))
    };
    let commands = file.list("Service", "ExecStart");
    let others: Vec<&&Setting> = commands.iter().filter(|setting| !own(setting)).collect();
    let has_own = commands.iter().any(own);
    if let Some(other) = others.last().filter(|other| has_own || other.file != file.files[0]) {
        findings.push(Finding {
            id: ids.exec,
            severity: Severity::Blocker,
            path: other.file.clone(),
            message: format!("`{}` overrides the `ExecStart=` of kiln for `{unit}`", other.file),
            fix: "delete the drop-in, or rename it so that it sorts before the drop-in of kiln".to_owned(),
        });
    } else if !has_own {
        findings.push(Finding {
            id: ids.drop_in,
            severity: Severity::Blocker,
            path: (*unit).to_owned(),
            message: format!("`{unit}` has no drop-in of kiln, so it does not run the generation in force"),
            fix: "install the kilnd package".to_owned(),
        });
    }
}

fn check_conditions(tree: &dyn Tree, file: &UnitFile, managed: &Managed, findings: &mut Vec<Finding>) {
    for prefix in ["Condition", "Assert"] {
        let checks = file.checks(prefix);
        let (any, all): (Vec<&Setting>, Vec<&Setting>) =
            checks.into_iter().partition(|setting| setting.value.starts_with('|'));
        let failed = |setting: &&Setting| is_met(tree, prefix, setting) == Some(false);
        // Of the conditions with `|`, one is enough.
        let any_failed = !any.is_empty() && any.iter().all(failed);
        for setting in all.iter().filter(|setting| failed(setting)).chain(any.iter().filter(|_| any_failed)) {
            let Setting { key, value, file, .. } = setting;
            findings.push(Finding {
                id: managed.ids.condition,
                severity: Severity::Blocker,
                path: file.clone(),
                message: format!("systemd does not start `{}`: `{key}={value}` in `{file}` is not met", managed.unit),
                fix: format!("create what the condition tests, or {FIX_DROP_IN}"),
            });
        }
    }
}

/// Whether a condition about files is met; none for other conditions and for paths that only exist on a running machine.
fn is_met(tree: &dyn Tree, prefix: &str, setting: &Setting) -> Option<bool> {
    let value = setting.value.trim_start_matches('|').trim_start();
    let (is_negated, path) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest.trim_start()));
    if !is_fixed(path) {
        return None;
    }
    let met = match setting.key.strip_prefix(prefix)? {
        "PathExists" => tree.exists(path),
        "PathExistsGlob" => !tree.glob(path).is_empty(),
        "PathIsDirectory" => tree.is_folder(path),
        "PathIsSymbolicLink" => tree.link(path).is_some(),
        "DirectoryNotEmpty" => !tree.names(path).is_empty(),
        "FileNotEmpty" => tree.entry(path).is_some_and(|entry| entry.size > 0),
        "FileIsExecutable" => tree.is_executable(path),
        _ => return None,
    };
    Some(met != is_negated)
}

/// Whether a path names a file of the image: absolute, without specifiers, and not created by the running machine or by kilnd.
fn is_fixed(path: &str) -> bool {
    let is_run_time = RUN_TIME.iter().any(|folder| path.starts_with(folder)) || path.starts_with("/var/run/");
    path.starts_with('/') && !path.contains('%') && !is_run_time && !path.starts_with(CURRENT) && path != READY
}

/// The path of an environment file that must exist and does not.
fn missing_environment_file<'v>(tree: &dyn Tree, value: &'v str) -> Option<&'v str> {
    let path = value.trim().trim_matches('"');
    if path.starts_with('-') || !is_fixed(path) {
        return None;
    }
    let exists = if path.contains('*') { !tree.glob(path).is_empty() } else { tree.exists(path) };
    (!exists).then_some(path)
}

/// Why a command fails on this image; none if it works or cannot be judged.
fn failing(tree: &dyn Tree, command: &str) -> Option<String> {
    // With a dash the result does not matter.
    let prefix: String = command.chars().take_while(|c| "-@:+!".contains(*c)).collect();
    if prefix.contains('-') {
        return None;
    }
    let words = words(&command[prefix.len()..]);
    failing_words(tree, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn failing_words(tree: &dyn Tree, words: &[&str]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if is_fixed(program) && tree.program(program).is_none() {
        return Some(format!("the program `{program}` does not exist"));
    }
    if ["test", "["].contains(&name) {
        return failing_test(tree, arguments);
    }
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    // A script, or commands after `-c`.
    let is_command = |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    if let Some(at) = arguments.iter().position(is_command) {
        let script = arguments.get(at + 1)?;
        return script.split("&&").find_map(|part| failing_shell(tree, part.trim()));
    }
    let script = arguments.iter().find(|word| !word.starts_with('-'))?;
    (is_fixed(script) && !tree.exists(script)).then(|| format!("the script `{script}` does not exist"))
}

/// A simple command of a shell script. Anything with control flow, a pipe or an alternative cannot be judged.
fn failing_shell(tree: &dyn Tree, part: &str) -> Option<String> {
    let first = part.split_whitespace().next()?;
    let is_simple = !["if", "for", "while", "case", "until", "!", "{", "("].contains(&first)
        && !part.contains(['|', ';', '$', '`']);
    if !is_simple {
        return None;
    }
    let words = words(part);
    failing_words(tree, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A test of one file.
fn failing_test(tree: &dyn Tree, arguments: &[&str]) -> Option<String> {
    let arguments: Vec<&str> = arguments.iter().copied().filter(|word| *word != "]").collect();
    let (is_negated, arguments) = match arguments.split_first() {
        Some((&"!", rest)) => (true, rest),
        _ => (false, arguments.as_slice()),
    };
    let [operator, path] = arguments else { return None };
    if !is_fixed(path) {
        return None;
    }
    let holds = match *operator {
        "-e" | "-r" | "-w" => tree.exists(path),
        "-f" => tree.exists(path) && !tree.is_folder(path),
        "-d" => tree.is_folder(path),
        "-s" => tree.entry(path).is_some_and(|entry| entry.size > 0),
        "-x" => tree.is_executable(path) || tree.is_folder(path),
        _ => return None,
    };
    (holds == is_negated)
        .then(|| if is_negated { format!("`{path}` exists") } else { format!("`{path}` does not exist") })
}

/// Splits a command line at white space outside quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => word.extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => (quote, is_word) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (c, _) => word.push(c),
        }
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    words
}
