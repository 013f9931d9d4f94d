//! A DHCP server without state: the hardware address of a machine determines its address.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;

use super::SandboxError;
use super::address::{GATEWAY, PREFIX, address, number_from};

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// The length of the fixed part of a message, before its options.
const FIXED: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Longer than a sandbox lives, so that no machine renews its lease.
const LEASE_SECONDS: u32 = 7 * 24 * 3600;

const MASK: u8 = 1;
const ROUTER: u8 = 3;
const LEASE: u8 = 51;
const KIND: u8 = 53;
const IDENTIFIER: u8 = 54;
const END: u8 = 255;

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACKNOWLEDGE: u8 = 5;

/// Answers requests until this process ends.
pub(super) fn serve() -> Result<(), SandboxError> {
    let failed = |source| SandboxError::Dhcp { source };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, SERVER)).map_err(failed)?;
    socket.set_broadcast(true).map_err(failed)?;
    thread::spawn(move || {
        let mut bytes = [0; 1500];
        loop {
            let Ok((length, _)) = socket.recv_from(&mut bytes) else { continue };
            if let Some(reply) = answer(&bytes[..length]) {
                // The client has no address yet, so the reply is a broadcast. The client repeats its request if the reply is lost.
                let _ = socket.send_to(&reply, SocketAddr::from((Ipv4Addr::BROADCAST, CLIENT)));
            }
        }
    });
    Ok(())
}

/// The reply to a message from a machine; `None` for any other message.
fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let (fixed, options) = message.split_at_checked(FIXED)?;
    if fixed[0] != 1 || fixed[FIXED - 4..] != COOKIE {
        return None;
    }
    let hardware: [u8; 6] = fixed[28..34].try_into().ok()?;
    let own = address(number_from(hardware)?).ok()?;
    let kind = match option(options, KIND)? {
        [DISCOVER] => OFFER,
        [REQUEST] => ACKNOWLEDGE,
        _ => return None,
    };
    let mut reply = fixed.to_vec();
    reply[0] = 2;
    reply[16..20].copy_from_slice(&own.octets());
    reply[20..24].copy_from_slice(&GATEWAY.octets());
    let mask = u32::MAX << (32 - u32::from(PREFIX));
    for (code, value) in [
        (KIND, vec![kind]),
        (IDENTIFIER, GATEWAY.octets().to_vec()),
        (LEASE, LEASE_SECONDS.to_be_bytes().to_vec()),
        (MASK, mask.to_be_bytes().to_vec()),
        (ROUTER, GATEWAY.octets().to_vec()),
    ] {
        reply.extend([code, u8::try_from(value.len()).unwrap_or_default()]);
        reply.extend(value);
    }
    reply.push(END);
    Some(reply)
}

fn option(mut options: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        match *options {
            [0, ref rest @ ..] => options = rest,
            [END, ..] => return None,
            [code, length, ref rest @ ..] => {
                let (value, rest) = rest.split_at_checked(length.into())?;
                if code == wanted {
                    return Some(value);
                }
                options = rest;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(hardware: [u8; 6], kind: u8) -> Vec<u8> {
        let mut message = vec![0; FIXED];
        message[0] = 1;
        message[4..8].copy_from_slice(&[1, 2, 3, 4]);
        message[28..34].copy_from_slice(&hardware);
        message[FIXED - 4..].copy_from_slice(&COOKIE);
        message.extend([0, 12, 1, b'x', KIND, 1, kind, END]);
        message
    }

    #[test]
    fn machine_gets_the_address_of_its_number_and_other_clients_get_no_reply() {
        let machine = [2, 0x77, 0, 0, 1, 2];
        for (request, reply_kind) in [(DISCOVER, OFFER), (REQUEST, ACKNOWLEDGE)] {
            let reply = answer(&message(machine, request)).unwrap();
            assert_eq!(reply[0], 2);
            assert_eq!(reply[4..8], [1, 2, 3, 4], "the transaction id of the request");
            assert_eq!(reply[16..20], address(0x0102).unwrap().octets());
            let options = &reply[FIXED..];
            assert_eq!(option(options, KIND), Some(&[reply_kind][..]));
            assert_eq!(option(options, ROUTER), Some(&GATEWAY.octets()[..]));
            assert_eq!(option(options, MASK), Some(&[255, 255, 0, 0][..]));
        }
        assert_eq!(answer(&message([2, 0x42, 0, 0, 1, 2], DISCOVER)), None);
        assert_eq!(answer(&message(machine, 7)), None);
        for length in 0..message(machine, DISCOVER).len() - 1 {
            let cut = &message(machine, DISCOVER)[..length];
            assert_eq!(answer(cut), None, "{length}");
        }
    }
}
