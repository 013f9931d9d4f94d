//! The addresses of a sandbox.

use std::net::Ipv4Addr;

use super::SandboxError;

/// The address of the sandbox itself: the gateway of its machines, and where they reach programs that run in it.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The address of the metadata service.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// The address of the wire server.
pub const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
pub(crate) const PREFIX: u8 = 16;
/// The bridge that connects all machines.
pub(crate) const BRIDGE: &str = "kiln0";

/// The number of machine addresses: 250 in each of 255 blocks. The first block belongs to the sandbox.
const LIMIT: u16 = PER_BLOCK * 255;
const PER_BLOCK: u16 = 250;

/// The address of a machine by its number. None ends in 0, 1 or 255, which some programs treat as special.
pub fn address(number: u16) -> Result<Ipv4Addr, SandboxError> {
    if number == 0 || number > LIMIT {
        return Err(SandboxError::NoAddress { number, limit: LIMIT });
    }
    let [third, fourth] =
        [(number - 1) / PER_BLOCK + 1, (number - 1) % PER_BLOCK + 2].map(|part| part.to_be_bytes()[1]);
    Ok(Ipv4Addr::new(10, 77, third, fourth))
}

/// The number of the machine that has an address.
pub fn number_at(address: Ipv4Addr) -> Option<u16> {
    let [10, 77, third, fourth] = address.octets() else { return None };
    let number = u16::from(third).checked_sub(1)? * PER_BLOCK + u16::from(fourth).checked_sub(2)? + 1;
    (u16::from(fourth) < PER_BLOCK + 2).then_some(number)
}

/// The hardware address of a machine, in the range for local use.
pub(crate) fn hardware_address(number: u16) -> String {
    let [high, low] = number.to_be_bytes();
    format!("02:77:00:00:{high:02x}:{low:02x}")
}

/// The number of the machine with a hardware address.
pub(crate) fn number_from(hardware: [u8; 6]) -> Option<u16> {
    match hardware {
        [2, 0x77, 0, 0, high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_own_address_and_back() {
        let mut seen = std::collections::HashSet::new();
        for number in 1..=LIMIT {
            let address = address(number).unwrap();
            assert!(seen.insert(address) && address != GATEWAY);
            assert!(!matches!(address.octets()[3], 0 | 1 | 255), "{address}");
            assert_eq!(number_at(address), Some(number), "{address}");
        }
        for other in [GATEWAY, METADATA, Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 255)] {
            assert_eq!(number_at(other), None, "{other}");
        }
        for number in [0, LIMIT + 1] {
            assert!(matches!(address(number), Err(SandboxError::NoAddress { .. })));
        }
    }
}
