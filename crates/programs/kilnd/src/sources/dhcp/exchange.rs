//! The exchange: discover, offer, request, acknowledge, with retransmission.

use std::io;
use std::time::Duration;

use super::Lease;
use super::message::{Kind, Reply, discover, request};
use crate::sources::wait::Wait;

/// The first timeout, doubled each time. The host answers within milliseconds, so anything slower is lost.
const FIRST: Duration = Duration::from_millis(250);
/// After so many unanswered requests the offer has probably expired.
const REQUESTS: u32 = 3;
/// Limit of NAKs after an offer.
const REJECTIONS: u32 = 4;

/// Sends and receives DHCP messages on one interface.
pub trait Transport {
    /// Broadcasts a message.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// The next message of any server, also to other machines; none after the timeout.
    fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>>;
}

/// A failed exchange.
#[derive(Debug, thiserror::Error)]
pub enum DhcpError {
    #[error("cannot use the interface")]
    Link(#[source] io::Error),
    #[error("no DHCP server answered {messages} messages in {} ms", waited.as_millis())]
    NoAnswer { messages: u32, waited: Duration },
    #[error("the DHCP server rejected {0} requests for addresses that it had offered")]
    Rejected(u32),
}

/// Gets a lease within a time limit. `number` is the transaction id.
pub fn get_lease(
    transport: &mut dyn Transport,
    hardware: [u8; 6],
    number: u32,
    at_most: Duration,
    wait: &dyn Wait,
) -> Result<Lease, DhcpError> {
    let started = wait.now();
    let spent = || wait.now().saturating_sub(started);
    // No timeout exceeds the limit, because other interfaces are tried next.
    let left = || at_most.saturating_sub(spent());
    let seconds = || u16::try_from(spent().as_secs()).unwrap_or(u16::MAX);
    let (mut messages, mut rejections) = (0, 0);
    let mut pause = FIRST;
    while !left().is_zero() {
        messages += 1;
        transport.send(&discover(hardware, number, seconds())).map_err(DhcpError::Link)?;
        let Some(offer) = receive(transport, wait, pause.min(left()), |bytes| {
            Reply::parse(bytes, hardware, number)
                .filter(|reply| reply.kind == Kind::Admission && Lease::from_reply(reply).is_some())
        })?
        else {
            pause *= 2;
            continue;
        };
        for attempt in 0..REQUESTS {
            if left().is_zero() {
                break;
            }
            messages += 1;
            transport.send(&request(hardware, number, seconds(), &offer)).map_err(DhcpError::Link)?;
            let answer = receive(transport, wait, left().min(FIRST * (1 << attempt)), |bytes| {
                Reply::parse(bytes, hardware, number).filter(|reply| reply.kind != Kind::Admission)
            })?;
            let Some(reply) = answer else { continue };
            // An ACK with an unusable address counts as a rejection.
            if let Some(lease) = Lease::from_reply(&reply).filter(|_| reply.kind == Kind::Ack) {
                return Ok(lease);
            }
            rejections += 1;
            if rejections >= REJECTIONS {
                return Err(DhcpError::Rejected(rejections));
            }
            wait.sleep(FIRST.min(left()));
            break;
        }
    }
    Err(DhcpError::NoAnswer { messages, waited: spent() })
}

/// The next message that matches; none after the timeout, however many others arrive.
fn receive(
    transport: &mut dyn Transport,
    wait: &dyn Wait,
    at_most: Duration,
    matching: impl Fn(&[u8]) -> Option<Reply>,
) -> Result<Option<Reply>, DhcpError> {
    let started = wait.now();
    loop {
        let left = at_most.saturating_sub(wait.now().saturating_sub(started));
        if left.is_zero() {
            return Ok(None);
        }
        match transport.receive(left) {
            Ok(Some(bytes)) => {
                if let Some(reply) = matching(&bytes) {
                    return Ok(Some(reply));
                }
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(DhcpError::Link(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use super::super::message::tests::{HARDWARE, answer};
    use super::*;

    /// A clock that advances by timeouts, and by a millisecond per message.
    #[derive(Default)]
    struct Time(Cell<Duration>);

    impl Wait for Time {
        fn now(&self) -> Duration {
            self.0.get()
        }

        fn sleep(&self, time: Duration) {
            self.0.set(self.0.get() + time);
        }

        fn network(&self, _: Duration) {}
    }

    type Server<'a> = Box<dyn FnMut(usize, &[u8]) -> Vec<Vec<u8>> + 'a>;

    /// An interface with a scripted server.
    struct Link<'a> {
        time: &'a Time,
        server: Server<'a>,
        replies: VecDeque<Vec<u8>>,
        sent: Vec<u8>,
    }

    impl Transport for Link<'_> {
        fn send(&mut self, message: &[u8]) -> io::Result<()> {
            let replies = (self.server)(self.sent.len(), message);
            self.replies.extend(replies);
            self.sent.push(message[242]);
            Ok(())
        }

        fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
            let next = self.replies.pop_front();
            self.time.sleep(if next.is_some() { Duration::from_millis(1) } else { at_most });
            Ok(next)
        }
    }

    const OFFER: u8 = 2;
    const ACK: u8 = 5;
    const NAK: u8 = 6;

    /// The result, and the types of all sent messages: 1 for DISCOVER, 3 for REQUEST.
    fn exchange(server: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>>) -> (Result<Lease, DhcpError>, Vec<u8>) {
        let time = Time::default();
        let mut link = Link { time: &time, server: Box::new(server), replies: VecDeque::new(), sent: Vec::new() };
        let lease = get_lease(&mut link, HARDWARE, 7, Duration::from_secs(5), &time);
        (lease, link.sent.clone())
    }

    fn grant(question: &[u8]) -> Vec<Vec<u8>> {
        let kind = if question[242] == 1 { OFFER } else { ACK };
        vec![answer(question, kind, [10, 0, 0, 4], &[1, 4, 255, 255, 255, 0])]
    }

    #[test]
    fn offer_is_requested_and_becomes_a_lease() {
        let (lease, sent) = exchange(|_, question| {
            if question[242] == 3 {
                assert_eq!(
                    question[243..255],
                    [50, 4, 10, 0, 0, 4, 54, 4, 10, 0, 0, 1],
                    "that address, of that server"
                );
            }
            grant(question)
        });
        let lease = lease.expect("a lease");
        assert_eq!((lease.address.octets(), lease.prefix, sent), ([10, 0, 0, 4], 24, vec![1, 3]));
    }

    #[test]
    fn lost_messages_are_sent_again() {
        let (lease, sent) = exchange(|at, question| if at < 2 || at == 3 { Vec::new() } else { grant(question) });
        assert!(lease.is_ok());
        assert_eq!(sent, [1, 1, 1, 3, 3]);
    }

    #[test]
    fn rejection_restarts_the_exchange_and_many_end_it() {
        // A NAK, or an ACK without an address.
        for kind in [NAK, ACK] {
            let reject = |question: &[u8]| vec![answer(question, kind, [0; 4], &[])];
            let (lease, sent) = exchange(|at, question| if at == 1 { reject(question) } else { grant(question) });
            assert!(lease.is_ok());
            assert_eq!(sent, [1, 3, 1, 3]);
            let (lease, sent) =
                exchange(|_, question| if question[242] == 3 { reject(question) } else { grant(question) });
            assert!(matches!(lease, Err(DhcpError::Rejected(REJECTIONS))), "{lease:?}");
            assert_eq!(sent, [1, 3].repeat(REJECTIONS as usize));
        }
    }

    #[test]
    fn rejections_are_followed_by_a_pause_within_the_limit() {
        let time = Time::default();
        let server = |_: usize, question: &[u8]| {
            let kind = if question[242] == 1 { OFFER } else { NAK };
            vec![answer(question, kind, [10, 0, 0, 4], &[])]
        };
        let mut link = Link { time: &time, server: Box::new(server), replies: VecDeque::new(), sent: Vec::new() };
        get_lease(&mut link, HARDWARE, 7, Duration::from_secs(5), &time).expect_err("rejected");
        assert!(time.now() >= FIRST * (REJECTIONS - 1), "{:?}", time.now());
        for limit in [1, 4, 5].map(Duration::from_secs) {
            let time = Time::default();
            let mut link =
                Link { time: &time, server: Box::new(|_, _| Vec::new()), replies: VecDeque::new(), sent: Vec::new() };
            let error = get_lease(&mut link, HARDWARE, 7, limit, &time).expect_err("no answer");
            assert!(matches!(error, DhcpError::NoAnswer { waited, .. } if waited == limit), "{error}");
        }
    }

    #[test]
    fn unanswered_requests_restart_the_exchange() {
        let (_, sent) = exchange(|_, question| if question[242] == 1 { grant(question) } else { Vec::new() });
        assert_eq!(sent[..5], [1, 3, 3, 3, 1]);
    }

    #[test]
    fn silence_and_noise_end_within_the_limit() {
        let (lease, sent) = exchange(|_, _| Vec::new());
        let error = lease.expect_err("no answer");
        assert!(error.to_string().contains("no DHCP server answered"), "{error}");
        assert_eq!(sent, [1; 5], "after 0, 250, 750, 1750 and 3750 ms");
        // Replies to other machines, garbage, and offers without an address.
        let (lease, _) = exchange(|_, question| {
            let mut others = answer(question, OFFER, [10, 0, 0, 9], &[]);
            others[28] ^= 1;
            let nothing = answer(question, OFFER, [0; 4], &[]);
            [others, b"garbage".to_vec(), nothing].into_iter().cycle().take(120).collect()
        });
        assert!(matches!(lease, Err(DhcpError::NoAnswer { .. })), "{lease:?}");
    }
}
