//! The exchange: a question, an offer, a request, a lease. What is lost is sent again.

use std::io;
use std::time::Duration;

use super::Lease;
use super::message::{Kind, Reply, discover, request};
use crate::sources::wait::Wait;

/// The first pause for an answer. The host itself answers, in milliseconds; what takes longer is lost. Doubled each time.
const FIRST: Duration = Duration::from_millis(250);
/// A request that is not answered so often is for an offer that nobody remembers.
const REQUESTS: u32 = 3;
/// How often an address may be candidate and then refused: a server that does so longer is broken.
const REFUSALS: u32 = 4;

/// What carries messages of one link.
pub trait Transport {
    /// Sends a message to every server on the link.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// The next message of any server, for whomever it is; nothing when the time is over.
    fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>>;
}

/// Why there is no address.
#[derive(Debug, thiserror::Error)]
pub enum DhcpError {
    /// The link does not carry anything.
    #[error("the link cannot be used")]
    Link(#[source] io::Error),
    /// Nobody answered.
    #[error("no DHCP server answered {questions} questions in {} ms", waited.as_millis())]
    Silence {
        /// How many were asked.
        questions: u32,
        /// For how long.
        waited: Duration,
    },
    /// Every address that was candidate was refused afterwards.
    #[error("a DHCP server refused what it had candidate, {0} times")]
    Refused(u32),
}

/// Asks for an address until there is one, at most so long. `number` tells this machine's exchange from others'.
pub fn get_lease(
    transport: &mut dyn Transport,
    hardware: [u8; 6],
    number: u32,
    at_most: Duration,
    wait: &dyn Wait,
) -> Result<Lease, DhcpError> {
    let started = wait.now();
    let spent = || wait.now().saturating_sub(started);
    // No pause is longer than what is left: other links wait for their turn.
    let left = || at_most.saturating_sub(spent());
    let seconds = || u16::try_from(spent().as_secs()).unwrap_or(u16::MAX);
    let (mut questions, mut refusals) = (0, 0);
    let mut pause = FIRST;
    while !left().is_zero() {
        questions += 1;
        transport.send(&discover(hardware, number, seconds())).map_err(DhcpError::Link)?;
        let Some(offer) = hear(transport, wait, pause.min(left()), |bytes| {
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
            questions += 1;
            transport.send(&request(hardware, number, seconds(), &offer)).map_err(DhcpError::Link)?;
            let answer = hear(transport, wait, left().min(FIRST * (1 << attempt)), |bytes| {
                Reply::parse(bytes, hardware, number).filter(|reply| reply.kind != Kind::Admission)
            })?;
            let Some(reply) = answer else { continue };
            // Who grants an address that no machine can have refuses too.
            if let Some(lease) = Lease::from_reply(&reply).filter(|_| reply.kind == Kind::Ack) {
                return Ok(lease);
            }
            refusals += 1;
            if refusals >= REFUSALS {
                return Err(DhcpError::Refused(refusals));
            }
            wait.sleep(FIRST.min(left()));
            break;
        }
    }
    Err(DhcpError::Silence { questions, waited: spent() })
}

/// The next message that is the one; nothing when the time is over, however much else is said meanwhile.
fn hear(
    transport: &mut dyn Transport,
    wait: &dyn Wait,
    at_most: Duration,
    is_it: impl Fn(&[u8]) -> Option<Reply>,
) -> Result<Option<Reply>, DhcpError> {
    let started = wait.now();
    loop {
        let left = at_most.saturating_sub(wait.now().saturating_sub(started));
        if left.is_zero() {
            return Ok(None);
        }
        match transport.receive(left) {
            Ok(Some(bytes)) => {
                if let Some(reply) = is_it(&bytes) {
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

    /// Time that passes while somebody listens in vain, and a millisecond with every message.
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

    /// A link with a server on it, which is told what to say to the nth question.
    struct Link<'a> {
        time: &'a Time,
        server: Server<'a>,
        said: VecDeque<Vec<u8>>,
        asked: Vec<u8>,
    }

    impl Transport for Link<'_> {
        fn send(&mut self, message: &[u8]) -> io::Result<()> {
            let words = (self.server)(self.asked.len(), message);
            self.said.extend(words);
            self.asked.push(message[242]);
            Ok(())
        }

        fn receive(&mut self, at_most: Duration) -> io::Result<Option<Vec<u8>>> {
            let next = self.said.pop_front();
            self.time.sleep(if next.is_some() { Duration::from_millis(1) } else { at_most });
            Ok(next)
        }
    }

    const OFFER: u8 = 2;
    const ACK: u8 = 5;
    const NAK: u8 = 6;

    /// What came of it, and the kinds of all questions: 1 for a discovery, 3 for a request.
    fn exchange(server: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>>) -> (Result<Lease, DhcpError>, Vec<u8>) {
        let time = Time::default();
        let mut link = Link { time: &time, server: Box::new(server), said: VecDeque::new(), asked: Vec::new() };
        let lease = get_lease(&mut link, HARDWARE, 7, Duration::from_secs(5), &time);
        (lease, link.asked.clone())
    }

    fn usual(question: &[u8]) -> Vec<Vec<u8>> {
        let kind = if question[242] == 1 { OFFER } else { ACK };
        vec![answer(question, kind, [10, 0, 0, 4], &[1, 4, 255, 255, 255, 0])]
    }

    #[test]
    fn an_offer_is_asked_for_and_becomes_a_lease() {
        let (lease, asked) = exchange(|_, question| {
            if question[242] == 3 {
                assert_eq!(
                    question[243..255],
                    [50, 4, 10, 0, 0, 4, 54, 4, 10, 0, 0, 1],
                    "that address, of that server"
                );
            }
            usual(question)
        });
        let lease = lease.expect("a lease");
        assert_eq!((lease.address.octets(), lease.prefix, asked), ([10, 0, 0, 4], 24, vec![1, 3]));
    }

    #[test]
    fn what_is_lost_is_sent_again() {
        let (lease, asked) = exchange(|at, question| if at < 2 || at == 3 { Vec::new() } else { usual(question) });
        assert!(lease.is_ok());
        assert_eq!(asked, [1, 1, 1, 3, 3]);
    }

    #[test]
    fn a_refusal_begins_anew_and_many_end_it() {
        // It says no, or yes to no address at all.
        for kind in [NAK, ACK] {
            let no = |question: &[u8]| vec![answer(question, kind, [0; 4], &[])];
            let (lease, asked) = exchange(|at, question| if at == 1 { no(question) } else { usual(question) });
            assert!(lease.is_ok());
            assert_eq!(asked, [1, 3, 1, 3]);
            let (lease, asked) =
                exchange(|_, question| if question[242] == 3 { no(question) } else { usual(question) });
            assert!(matches!(lease, Err(DhcpError::Refused(REFUSALS))), "{lease:?}");
            assert_eq!(asked, [1, 3].repeat(REFUSALS as usize));
        }
    }

    #[test]
    fn refusals_are_paused_after_and_no_pause_is_longer_than_what_is_left() {
        let time = Time::default();
        let server = |_: usize, question: &[u8]| {
            let kind = if question[242] == 1 { OFFER } else { NAK };
            vec![answer(question, kind, [10, 0, 0, 4], &[])]
        };
        let mut link = Link { time: &time, server: Box::new(server), said: VecDeque::new(), asked: Vec::new() };
        get_lease(&mut link, HARDWARE, 7, Duration::from_secs(5), &time).expect_err("refused");
        assert!(time.now() >= FIRST * (REFUSALS - 1), "{:?}", time.now());
        for patience in [1, 4, 5].map(Duration::from_secs) {
            let time = Time::default();
            let mut link =
                Link { time: &time, server: Box::new(|_, _| Vec::new()), said: VecDeque::new(), asked: Vec::new() };
            let error = get_lease(&mut link, HARDWARE, 7, patience, &time).expect_err("nobody");
            assert!(matches!(error, DhcpError::Silence { waited, .. } if waited == patience), "{error}");
        }
    }

    #[test]
    fn a_server_that_forgets_its_offer_is_asked_from_the_beginning() {
        let (_, asked) = exchange(|_, question| if question[242] == 1 { usual(question) } else { Vec::new() });
        assert_eq!(asked[..5], [1, 3, 3, 3, 1]);
    }

    #[test]
    fn silence_and_noise_end_in_time() {
        let (lease, asked) = exchange(|_, _| Vec::new());
        let error = lease.expect_err("nobody");
        assert!(error.to_string().contains("no DHCP server answered"), "{error}");
        assert_eq!(asked, [1; 5], "after 0, 250, 750, 1750 and 3750 ms");
        // Answers of others, garbage, and offers of nothing.
        let (lease, _) = exchange(|_, question| {
            let mut others = answer(question, OFFER, [10, 0, 0, 9], &[]);
            others[28] ^= 1;
            let nothing = answer(question, OFFER, [0; 4], &[]);
            [others, b"garbage".to_vec(), nothing].into_iter().cycle().take(120).collect()
        });
        assert!(matches!(lease, Err(DhcpError::Silence { .. })), "{lease:?}");
    }
}
