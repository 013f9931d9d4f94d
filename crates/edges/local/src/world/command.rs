//! Programs that are run to their end.

use std::process::{Command, Stdio};

use super::WorldError;

/// Runs a command to its end; what it said is in the error.
pub(crate) fn finished(command: &mut Command) -> Result<(), WorldError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let output = command.stdin(Stdio::null()).output();
    let program = || command.get_program().to_string_lossy().into_owned();
    let output = output.map_err(|source| WorldError::Program { program: program(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(WorldError::Failed { line, output: format!("{} ({})", String::from_utf8_lossy(&said).trim(), output.status) })
}
