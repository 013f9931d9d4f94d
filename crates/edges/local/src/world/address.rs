//! Who has which address in a world.

use std::net::Ipv4Addr;

use super::WorldError;

/// The world's own address: what machines reach of the programs that run in the world, and their gateway.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Where a machine asks who it is.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// Where a machine says that it is ready.
pub const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
/// The length of the network's prefix.
pub(crate) const PREFIX: u8 = 16;
/// The bridge that every machine is wired to.
pub(crate) const BRIDGE: &str = "kiln0";

/// How many machines a network of 256 times 250 addresses has room for, its first one left to the world.
const MOST: u16 = 250 * 255;
const IN_A_ROW: u16 = 250;

/// The address of a machine by its number. None ends in 0, 1 or 255, which some programs take for something else.
pub fn address(number: u16) -> Result<Ipv4Addr, WorldError> {
    if number == 0 || number > MOST {
        return Err(WorldError::NoAddress { number, most: MOST });
    }
    let [third, fourth] = [(number - 1) / IN_A_ROW + 1, (number - 1) % IN_A_ROW + 2].map(|part| part.to_be_bytes()[1]);
    Ok(Ipv4Addr::new(10, 77, third, fourth))
}

/// The number of the machine that has an address.
pub fn number_at(address: Ipv4Addr) -> Option<u16> {
    let [10, 77, third, fourth] = address.octets() else { return None };
    let number = u16::from(third).checked_sub(1)? * IN_A_ROW + u16::from(fourth).checked_sub(2)? + 1;
    (u16::from(fourth) < IN_A_ROW + 2).then_some(number)
}

/// The hardware address of a machine, of those that nobody has bought.
pub(crate) fn hardware_address(number: u16) -> String {
    let [high, low] = number.to_be_bytes();
    format!("02:77:00:00:{high:02x}:{low:02x}")
}

/// The number that a hardware address stands for.
pub(crate) fn number_of(hardware: [u8; 6]) -> Option<u16> {
    match hardware {
        [2, 0x77, 0, 0, high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_an_address_of_its_own_and_is_told_by_it() {
        let mut seen = std::collections::HashSet::new();
        for number in 1..=MOST {
            let address = address(number).unwrap();
            assert!(seen.insert(address) && address != GATEWAY);
            assert!(!matches!(address.octets()[3], 0 | 1 | 255), "{address}");
            assert_eq!(number_at(address), Some(number), "{address}");
        }
        for nobody in [GATEWAY, METADATA, Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 255)] {
            assert_eq!(number_at(nobody), None, "{nobody}");
        }
        for number in [0, MOST + 1] {
            assert!(matches!(address(number), Err(WorldError::NoAddress { .. })));
        }
    }
}
