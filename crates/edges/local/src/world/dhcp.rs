//! Addresses for machines that ask for one: each gets the one that its hardware address stands for, and nobody keeps a list.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;

use super::WorldError;
use super::address::{GATEWAY, PREFIX, address, number_of};

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// The fixed part of a message, up to where options begin.
const FIXED: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Longer than any world lasts: nobody asks again.
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

/// Answers for as long as this process lives.
pub(super) fn serve() -> Result<(), WorldError> {
    let failed = |source| WorldError::Program { program: "DHCP".to_owned(), source };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, SERVER)).map_err(failed)?;
    socket.set_broadcast(true).map_err(failed)?;
    thread::spawn(move || {
        let mut bytes = [0; 1500];
        loop {
            let Ok((length, _)) = socket.recv_from(&mut bytes) else { continue };
            if let Some(reply) = answer(&bytes[..length]) {
                // Whoever asks has no address yet. A reply that is lost is asked for again.
                let _ = socket.send_to(&reply, SocketAddr::from((Ipv4Addr::BROADCAST, CLIENT)));
            }
        }
    });
    Ok(())
}

/// What a machine is answered; nobody else is.
fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let (fixed, options) = message.split_at_checked(FIXED)?;
    if fixed[0] != 1 || fixed[FIXED - 4..] != COOKIE {
        return None;
    }
    let hardware: [u8; 6] = fixed[28..34].try_into().ok()?;
    let own = address(number_of(hardware)?).ok()?;
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
    fn a_machine_is_offered_and_given_the_address_of_its_number_and_strangers_nothing() {
        let ours = [2, 0x77, 0, 0, 1, 2];
        for (asked, told) in [(DISCOVER, OFFER), (REQUEST, ACKNOWLEDGE)] {
            let reply = answer(&message(ours, asked)).unwrap();
            assert_eq!(reply[0], 2);
            assert_eq!(reply[4..8], [1, 2, 3, 4], "it is told from other answers by the number of its question");
            assert_eq!(reply[16..20], address(0x0102).unwrap().octets());
            let options = &reply[FIXED..];
            assert_eq!(option(options, KIND), Some(&[told][..]));
            assert_eq!(option(options, ROUTER), Some(&GATEWAY.octets()[..]));
            assert_eq!(option(options, MASK), Some(&[255, 255, 0, 0][..]));
        }
        assert_eq!(answer(&message([2, 0x42, 0, 0, 1, 2], DISCOVER)), None);
        assert_eq!(answer(&message(ours, 7)), None);
        for length in 0..message(ours, DISCOVER).len() - 1 {
            let cut = &message(ours, DISCOVER)[..length];
            assert_eq!(answer(cut), None, "{length}");
        }
    }
}
