//! Validation of names and version numbers.

use crate::arm::error::ArmError;

/// Galleries: letters, digits, dots and underscores, at most 80, a letter or digit at both ends. No dashes.
pub(super) fn gallery_name(name: &str) -> Result<(), ArmError> {
    check(name, "._", 80, "galleryName", "letters, digits, dots and underscores")
}

/// Image definitions: like galleries, plus dashes.
pub(super) fn definition_name(name: &str) -> Result<(), ArmError> {
    check(name, "._-", 80, "galleryImageName", "letters, digits, dots, dashes and underscores")
}

/// Disks and snapshots: letters, digits, dots, dashes and underscores, at most 80.
pub(super) fn disk_name(name: &str) -> Result<(), ArmError> {
    check(name.strip_suffix('_').unwrap_or(name), "._-", 80, "name", "letters, digits, dots, dashes and underscores")
}

/// Scale sets and VMs: at most 64.
pub(super) fn machine_name(name: &str) -> Result<(), ArmError> {
    check(name, "._-", 64, "name", "letters, digits, dots, dashes and underscores")
}

fn check(name: &str, others: &str, longest: usize, target: &str, allowed: &str) -> Result<(), ArmError> {
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inside = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte));
    if inside && name.len() <= longest && end(name.bytes().next()) && end(name.bytes().last()) {
        return Ok(());
    }
    let message = format!(
        "The entity name '{name}' is invalid according to its validation rule: it must have 1 to {longest} characters, only {allowed}, and start and end with a letter or digit."
    );
    Err(ArmError::bad("InvalidParameter", message).about(target))
}

/// Parses the three numbers of a version such as `2026.11.15`. Leading zeros are ignored.
pub(super) fn version_number(name: &str) -> Result<[u32; 3], ArmError> {
    let error = || {
        let message = format!(
            "The gallery image version name '{name}' is invalid. It must be of the form Major.Minor.Patch, each a number up to 2147483647."
        );
        ArmError::parameter("galleryImageVersionName", message)
    };
    let mut numbers = [0; 3];
    let mut parts = name.split('.');
    for number in &mut numbers {
        let part = parts
            .next()
            .filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(error)?;
        *number = part.parse::<u32>().ok().filter(|&number| number <= i32::MAX.unsigned_abs()).ok_or_else(error)?;
    }
    if parts.next().is_some() { Err(error()) } else { Ok(numbers) }
}

/// Formats a number with six characters of base 36, as in the computer names of a scale set. Azure writes letters in upper case; the
/// kubelet registers the node in lower case.
pub(super) fn base36(mut number: u64) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[usize::try_from(number % 36).unwrap_or(0)];
        number /= 36;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_names_may_have_dashes_and_gallery_names_not() {
        assert!(gallery_name("SIG_kubernetes_westus2_17813").is_ok());
        for bad in ["SIG-x", "_x", "x_", "", "x y", &"x".repeat(81)] {
            assert_eq!(gallery_name(bad).expect_err(bad).code, "InvalidParameter");
        }
        assert!(definition_name("kamino-k8s-agentpool1-26100436-vmss-prototype").is_ok());
    }

    #[test]
    fn versions_are_three_numbers_of_31_bits() {
        assert_eq!(version_number("2026.01.05").expect("a version"), [2026, 1, 5]);
        for bad in ["1.2", "1.2.3.4", "1.2.x", "1..3", "1.2.-3", "1.2.2147483648", "latest", ""] {
            assert!(version_number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn instances_are_numbered_in_upper_case_base_36() {
        assert_eq!([base36(0), base36(9), base36(10), base36(36)], ["000000", "000009", "00000A", "000010"]);
    }
}
