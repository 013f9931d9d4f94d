//! The processor time of a program, on a host with other work.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln_machines::command::{command_line, tail};
use wait4::Wait4 as _;

use crate::Error;

/// The number of runs of each case. Other work on the host only adds to the time of a run (interrupts, evicted caches), so the lowest of many is
/// that of the program itself. Of forty runs at least one is undisturbed, even if both processors are busy.
pub(super) const RUNS: usize = 40;

/// The processor time of a program with all its threads, from `exec` to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    /// The lowest of all runs, in the program and in the kernel.
    pub(super) least: Duration,
    /// The share of the kernel in all runs, in percent. The kernel samples it, so it is meaningless for a single run.
    pub(super) in_kernel: u64,
}

/// Runs each command once.
pub(super) fn measure(commands: impl IntoIterator<Item = Command>) -> Result<Time, Error> {
    let runs = commands.into_iter().map(|mut command| once(&mut command)).collect::<Result<Vec<_>, _>>()?;
    Ok(summary(&runs))
}

/// Time in the program and in the kernel.
type Run = (Duration, Duration);

fn summary(runs: &[Run]) -> Time {
    let least = runs.iter().map(|(user, kernel)| *user + *kernel).min().unwrap_or_default();
    let (user, kernel): (Duration, Duration) =
        (runs.iter().map(|(user, _)| user).sum(), runs.iter().map(|(_, kernel)| kernel).sum());
    let all = (user + kernel).as_micros().max(1);
    Time { least, in_kernel: u64::try_from(kernel.as_micros() * 100 / all).unwrap_or_default() }
}

fn once(command: &mut Command) -> Result<Run, Error> {
    let line = command_line(command);
    let failed = Error::spawn(&line);
    // The journal is a pipe here and a socket for a service; writing to it is part of the cost.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(&failed)?;
    let stderr = child.stderr.take();
    let used = child.wait4().map_err(&failed)?;
    if used.status.success() {
        return Ok((used.rusage.utime, used.rusage.stime));
    }
    let mut output = String::new();
    let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut output));
    let (status, output) = (used.status.to_string(), tail(&output, 20));
    Err(kiln_machines::Error::Failed { line: line.clone(), status, output }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_lowest_run_and_the_kernels_share_is_of_all_runs() {
        let run = |user, kernel| (Duration::from_micros(user), Duration::from_micros(kernel));
        let time = summary(&[run(900, 300), run(1_000, 0), run(500, 700), run(600, 0)]);
        assert_eq!(time, Time { least: Duration::from_micros(600), in_kernel: 25 });
    }

    #[test]
    fn failing_program_is_an_error() {
        let error = measure([Command::new("false")]).expect_err("failed");
        let Error::Machine(kiln_machines::Error::Failed { line, .. }) = error else { panic!("{error}") };
        assert_eq!(line, "false");
    }
}
