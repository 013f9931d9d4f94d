//! The packet that a message comes in. A machine without an address is given nothing by its kernel's own network: with the usual
//! filter against wrong senders, even what is sent to everybody is dropped. So it reads packets as they come from the link.

/// The ports of the protocol.
const SERVER: u16 = 67;
const CLIENT: u16 = 68;
const UDP: u8 = 17;

/// What a DHCP server's packet carries, given from its IPv4 head on; nothing where the packet is anything else, a piece, or cut.
///
/// Checksums are not looked at: a host leaves them to a network card that is not there, and a message that does not fit its question is
/// passed over anyway.
pub fn payload(packet: &[u8]) -> Option<&[u8]> {
    let head = packet.get(..20)?;
    let length = usize::from(head[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let is_piece = u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0;
    if head[0] >> 4 != 4 || length < 20 || head[9] != UDP || is_piece {
        return None;
    }
    // The link may have added to the end of a short packet.
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

    /// From 10.0.2.2:67 to everybody's port 68.
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
    fn a_server_s_message_is_taken_out_and_what_the_link_added_is_left() {
        let mut bytes = packet(b"offer");
        bytes.extend([0; 18]);
        assert_eq!(payload(&bytes), Some(&b"offer"[..]));
    }

    #[test]
    fn other_packets_are_passed_over() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 8] = [
            ("another version", |bytes| bytes[0] = 0x65),
            ("a head that is too short", |bytes| bytes[0] = 0x44),
            ("another protocol", |bytes| bytes[9] = 6),
            ("the first of several pieces", |bytes| bytes[6] = 0x20),
            ("a later piece", |bytes| bytes[7] = 1),
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
