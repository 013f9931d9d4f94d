//! DHCP messages: RFC 2131 and the required options of RFC 2132 and 3442.

use std::net::Ipv4Addr;

use super::Route;

/// The magic cookie before the options.
const MAGIC: [u8; 4] = [0x63, 0x82, 0x53, 0x63];
/// The offset of the options.
const HEAD: usize = 240;
/// BOOTP servers drop shorter messages.
const SHORTEST: usize = 300;
/// Requests a broadcast reply, because the machine has no address yet.
const BROADCAST: u16 = 0x8000;
/// Limit of routes.
const MOST_ROUTES: usize = 64;

mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const ADDRESS: u8 = 50;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const WANTED: u8 = 55;
    pub(super) const ROUTES: u8 = 121;
    pub(super) const END: u8 = 255;
}

/// The type of a server message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Admission,
    Ack,
    Nak,
}

/// A server message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub kind: Kind,
    pub address: Ipv4Addr,
    pub server: Ipv4Addr,
    pub mask: Option<Ipv4Addr>,
    pub router: Option<Ipv4Addr>,
    /// Classless routes, in the order of the server.
    pub routes: Vec<Route>,
}

/// `DHCPDISCOVER`.
pub(super) fn discover(hardware: [u8; 6], number: u32, seconds: u16) -> Vec<u8> {
    question(hardware, number, seconds, 1, &[])
}

/// `DHCPREQUEST` for an offer.
pub(super) fn request(hardware: [u8; 6], number: u32, seconds: u16, offer: &Reply) -> Vec<u8> {
    let wanted = [(option::ADDRESS, offer.address.octets()), (option::SERVER, offer.server.octets())];
    question(hardware, number, seconds, 3, &wanted)
}

/// `DHCPRELEASE` of an address. There is no answer to it.
pub(super) fn release(hardware: [u8; 6], number: u32, address: Ipv4Addr, server: Ipv4Addr) -> Vec<u8> {
    let mut bytes = head(hardware, number);
    bytes[12..16].copy_from_slice(&address.octets());
    bytes.extend([option::KIND, 1, 7, option::SERVER, 4]);
    bytes.extend(server.octets());
    bytes.push(option::END);
    bytes.resize(bytes.len().max(SHORTEST), option::PAD);
    bytes
}

fn question(hardware: [u8; 6], number: u32, seconds: u16, kind: u8, about: &[(u8, [u8; 4])]) -> Vec<u8> {
    let mut bytes = head(hardware, number);
    bytes[8..10].copy_from_slice(&seconds.to_be_bytes());
    bytes[10..12].copy_from_slice(&BROADCAST.to_be_bytes());
    bytes.extend([option::KIND, 1, kind]);
    for (option, address) in about {
        bytes.extend([*option, 4]);
        bytes.extend(address);
    }
    bytes.extend([option::WANTED, 4, option::MASK, option::ROUTES, option::ROUTER, option::LEASE_TIME, option::END]);
    bytes.resize(bytes.len().max(SHORTEST), option::PAD);
    bytes
}

/// A message without options, from a client over Ethernet.
fn head(hardware: [u8; 6], number: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes[..3].copy_from_slice(&[1, 1, 6]);
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[28..34].copy_from_slice(&hardware);
    bytes[236..].copy_from_slice(&MAGIC);
    bytes
}

impl Reply {
    /// Parses the reply to a message; none if it is invalid or for another exchange.
    pub fn parse(bytes: &[u8], hardware: [u8; 6], number: u32) -> Option<Self> {
        let head = bytes.get(..HEAD)?;
        let is_ours = head[..3] == [2, 1, 6] && head[4..8] == number.to_be_bytes() && head[28..34] == hardware;
        if !is_ours || head[236..] != MAGIC {
            return None;
        }
        let (mut kind, mut server, mut mask, mut router) = (None, None, None, None);
        let mut route_bytes = Vec::new();
        let mut rest = &bytes[HEAD..];
        while let Some((&code, after)) = rest.split_first() {
            match code {
                option::PAD => rest = after,
                option::END => break,
                _ => {
                    let (&length, after) = after.split_first()?;
                    let (value, after) = after.split_at_checked(usize::from(length))?;
                    match code {
                        option::KIND => kind = value.first().copied(),
                        option::SERVER => server = address(value),
                        option::MASK => mask = address(value),
                        option::ROUTER => router = address(value),
                        // A long value is split into several options (RFC 3396).
                        option::ROUTES => route_bytes.extend_from_slice(value),
                        _ => {}
                    }
                    rest = after;
                }
            }
        }
        let kind = match kind? {
            2 => Kind::Admission,
            5 => Kind::Ack,
            6 => Kind::Nak,
            _ => return None,
        };
        let yours = address(&head[16..20])?;
        Some(Self { kind, address: yours, server: server?, mask, router, routes: routes(&route_bytes) })
    }
}

fn address(bytes: &[u8]) -> Option<Ipv4Addr> {
    let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(four.into())
}

/// Parses classless routes: prefix length, significant bytes, gateway. Parsing stops at the first invalid one.
fn routes(mut bytes: &[u8]) -> Vec<Route> {
    let mut found = Vec::new();
    while let Some((&prefix, after)) = bytes.split_first() {
        let taken = usize::from(prefix.div_ceil(8));
        let (true, Some((to, after))) = (prefix <= 32, after.split_at_checked(taken)) else { break };
        let Some((via, after)) = after.split_at_checked(4) else { break };
        let mut whole = [0; 4];
        whole[..taken].copy_from_slice(to);
        let via = address(via).filter(|via| !via.is_unspecified());
        found.push(Route { to: whole.into(), prefix, via });
        if found.len() == MOST_ROUTES {
            break;
        }
        bytes = after;
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const HARDWARE: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

    /// A server reply with these options.
    pub(crate) fn answer(question: &[u8], kind: u8, yours: [u8; 4], options: &[u8]) -> Vec<u8> {
        let mut bytes = question[..HEAD].to_vec();
        bytes[0] = 2;
        bytes[16..20].copy_from_slice(&yours);
        bytes.extend([option::KIND, 1, kind, option::SERVER, 4, 10, 0, 0, 1]);
        bytes.extend(options);
        bytes.push(option::END);
        bytes
    }

    #[test]
    fn discover_is_padded_and_requests_routes_and_a_broadcast_reply() {
        let bytes = discover(HARDWARE, 0x0102_0304, 5);
        assert_eq!((bytes.len(), &bytes[..12]), (SHORTEST, &[1, 1, 6, 0, 1, 2, 3, 4, 0, 5, 0x80, 0][..]));
        assert_eq!(&bytes[236..250], &[0x63, 0x82, 0x53, 0x63, 53, 1, 1, 55, 4, 1, 121, 3, 51, 255]);
    }

    #[test]
    fn reply_is_parsed_and_foreign_replies_are_ignored() {
        let question = discover(HARDWARE, 7, 0);
        let options = [
            &[1, 4, 255, 255, 240, 0][..],
            &[0, 3, 8, 10, 0, 0, 1, 10, 0, 0, 2],
            // One list in two options: default route, 168.63.129.16, and a route without a gateway.
            &[121, 7, 0, 10, 0, 0, 1, 32, 168],
            &[121, 12, 63, 129, 16, 10, 0, 0, 1, 24, 10, 9, 8, 0, 0],
            &[121, 3, 0, 0, 0],
            &[245, 4, 168, 63, 129, 16],
        ]
        .concat();
        let bytes = answer(&question, 5, [10, 0, 0, 4], &options);
        let reply = Reply::parse(&bytes, HARDWARE, 7).expect("an answer");
        assert_eq!((reply.kind, reply.address), (Kind::Ack, [10, 0, 0, 4].into()));
        assert_eq!((reply.mask, reply.router), (Some([255, 255, 240, 0].into()), Some([10, 0, 0, 1].into())));
        let via = Some([10, 0, 0, 1].into());
        let expected = [
            Route { to: [0, 0, 0, 0].into(), prefix: 0, via },
            Route { to: [168, 63, 129, 16].into(), prefix: 32, via },
            Route { to: [10, 9, 8, 0].into(), prefix: 24, via: None },
        ];
        assert_eq!(reply.routes, expected);
        assert_eq!(Reply::parse(&bytes, HARDWARE, 8), None, "another exchange");
        assert_eq!(Reply::parse(&bytes, [1; 6], 7), None, "another machine");
        assert_eq!(Reply::parse(&question, HARDWARE, 7), None, "a request");
    }

    #[test]
    fn invalid_lengths_end_the_parsing() {
        let question = discover(HARDWARE, 7, 0);
        let whole = answer(&question, 2, [10, 0, 0, 4], &[121, 200, 1, 2]);
        assert_eq!(Reply::parse(&whole, HARDWARE, 7), None);
        for end in 0..whole.len() {
            let _ = Reply::parse(&whole[..end], HARDWARE, 7);
        }
        assert_eq!(routes(&[33, 1, 2, 3, 4, 5, 10, 0, 0, 1]), []);
        assert_eq!(routes(&[32, 1, 2, 3]), []);
        assert_eq!(routes(&[0, 10, 0, 0, 1].repeat(1000)).len(), MOST_ROUTES);
    }
}
