//! kilnd's services under strace.

use testkit::nspawn::Machine;

/// Runs a service of kilnd under strace from the next boot on. Returns the file that will have the trace.
pub(crate) fn trace(machine: &Machine, service: &str, command: &str) -> String {
    let file = format!("/var/lib/trace-{command}");
    let traced = format!(
        "[Service]\nNotifyAccess=all\nExecStart=\nExecStart=/usr/bin/strace --follow-forks --output={file} \
         --trace=process,fsync,fdatasync,sync,syncfs,sendto,sendmsg,write,connect --string-limit=200 \
         /usr/bin/kilnd {command} --dmi /hardware/dmi --cd /hardware/cd\n"
    );
    machine.write(&format!("/etc/systemd/system/{service}.d/90-trace.conf"), traced.as_bytes(), 0o644);
    file
}

/// The trace of a service, once it has exited with 0.
#[track_caller]
pub(crate) fn wait_for_trace(machine: &Machine, file: &str) -> String {
    machine.wait_until(&format!("{file} is complete"), |machine| {
        machine.read(file).filter(|trace| trace.contains("+++ exited with 0 +++"))
    })
}

/// Asserts that a traced service started no other program and no other process.
#[track_caller]
pub(crate) fn assert_no_child(trace: &str) {
    let calls = |names: &[&str]| {
        let is_call = |line: &&str| {
            names.iter().any(|name| line.split_whitespace().nth(1).is_some_and(|call| call.starts_with(name)))
        };
        trace.lines().filter(is_call).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(calls(&["execve("]).len(), 1, "{trace}");
    let made = calls(&["fork(", "vfork(", "clone(", "clone3("]);
    assert!(made.iter().all(|call| call.contains("CLONE_THREAD")), "{made:?}");
}

/// The number of calls in a trace that wait for the disk.
pub(crate) fn syncs(trace: &str) -> usize {
    let names = ["fsync(", "fdatasync(", "syncfs(", " sync("];
    trace.lines().filter(|line| names.iter().any(|name| line.contains(name))).count()
}
