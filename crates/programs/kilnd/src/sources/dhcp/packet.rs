//! IPv4 and UDP headers. Without an address the kernel delivers no UDP, and reverse path filtering drops even broadcasts, so kilnd reads raw
//! packets.

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
const UDP: u8 = 17;

/// The payload of a DHCP server's packet, which starts at its IPv4 header; none for other, fragmented or truncated packets.
///
/// Checksums are not verified: hosts leave them to offloading, and messages that do not match the exchange are ignored anyway.
pub fn payload(packet: &[u8]) -> Option<&[u8]> {
    let head = packet.get(..20)?;
    let length = usize::from(head[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let is_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
    if head[0] >> 4 != 4 || length < 20 || head[9] != UDP || is_fragment {
        return None;
    }
    // Short packets may be padded.
    let datagram = packet.get(length..total)?;
    let number = |at: usize| Some(u16::from_be_bytes([*datagram.get(at)?, *datagram.get(at + 1)?]));
    if (number(0)?, number(2)?) != (SERVER, CLIENT) {
        return None;
    }
    datagram.get(8..usize::from(number(4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10.0.2.2:67 to 255.255.255.255:68.
    fn packet(message: &[u8]) -> Vec<u8> {
        let udp = u16::try_from(8 + message.len()).expect("short");
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 2, 2, 255, 255, 255, 255];
        bytes[2..4].copy_from_slice(&(udp + 20).to_be_bytes());
        bytes.extend([0, 67, 0, 68]);
        bytes.extend(udp.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(message);
        bytes
    }

    #[test]
    fn payload_is_extracted_without_padding() {
        let mut bytes = packet(b"offer");
        bytes.extend([0; 18]);
        assert_eq!(payload(&bytes), Some(&b"offer"[..]));
    }

    #[test]
    fn other_packets_are_ignored() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 8] = [
            ("another version", |bytes| bytes[0] = 0x65),
            ("a short header", |bytes| bytes[0] = 0x44),
            ("another protocol", |bytes| bytes[9] = 6),
            ("the first fragment", |bytes| bytes[6] = 0x20),
            ("a later fragment", |bytes| bytes[7] = 1),
            ("another sender's port", |bytes| bytes[21] = 53),
            ("a length beyond its end", |bytes| bytes[3] = 200),
            ("a message beyond its end", |bytes| bytes[25] = 200),
        ];
        for (what, change) in changes {
            let mut bytes = packet(b"offer");
            change(&mut bytes);
            assert_eq!(payload(&bytes), None, "{what}");
        }
        let whole = packet(b"offer");
        assert!((0..whole.len()).all(|end| payload(&whole[..end]).is_none()));
    }
}
