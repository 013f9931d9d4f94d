//! Fuzzes the parsers of external input: each ends with a result or an error, within its size limits.

#[expect(dead_code, reason = "these tests do not check the requests")]
mod scripted_host;

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use kiln_node_config::media::NODE_CONFIG;
use kilnd::sources::{Decoded, Imds, OvfEnv, Rules, VmId, decode};
use scripted_host::{Host, VirtualClock};

/// A xorshift generator, so that every run has the same numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).expect("small")
    }

    /// Flips bits, truncates, duplicates, splices, inserts and removes bytes.
    fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.next(seeds.len())].clone();
        for _ in 0..=self.next(4) {
            let at = self.next(bytes.len());
            match self.next(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.next(8),
                1 => bytes.truncate(at),
                2 => {
                    let piece = bytes[at..].to_vec();
                    bytes.splice(at..at, piece);
                }
                3 => {
                    let other = &seeds[self.next(seeds.len())];
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[self.next(other.len())..]);
                }
                4 => bytes.insert(at, u8::try_from(self.next(256)).expect("a byte")),
                _ if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn seeds() -> Vec<Vec<u8>> {
    let document = br#"{"apiVersion":"kiln.dev/v1alpha1","kind":"NodeConfig","spec":{}}"#.to_vec();
    let message = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"=b=\"\r\n\r\n--=b=\r\nContent-Type: {NODE_CONFIG}\r\n\
         Content-Transfer-Encoding: base64\r\nContent-Digest: sha-256=:x:\r\n\r\ne30=\r\n--=b=--\r\n"
    );
    vec![
        document.clone(),
        gzip(&document),
        b"eyJhIjoxfQ==".to_vec(),
        message.clone().into_bytes(),
        gzip(message.as_bytes()),
    ]
}

#[test]
fn decoding_random_input_ends() {
    let seeds = seeds();
    let mut chance = Chance(0x5eed);
    let mut accepted = 0;
    for _ in 0..10_000 {
        let bytes = chance.mutate(&seeds);
        if let Ok(Decoded { document, .. }) = decode(&bytes) {
            assert!(document.len() <= 1 << 20);
            assert_eq!(document.first(), Some(&b'{'));
            let _ = kiln_node_config::NodeConfig::parse(&document);
            accepted += 1;
        }
    }
    assert!(accepted > 250, "only {accepted} inputs were decoded");
}

#[test]
fn parsing_random_ovf_env_ends() {
    let seed = "<E xmlns:w=\"u\"><w:LinuxProvisioningConfigurationSet><w:HostName>n</w:HostName><w:UserPassword>hunter2</w:UserPassword>\
        <w:CustomData>e30=</w:CustomData><w:SSH><w:PublicKeys><w:PublicKey><w:Value>k</w:Value></w:PublicKey></w:PublicKeys></w:SSH>\
        </w:LinuxProvisioningConfigurationSet><w:PreprovisionedVm>true</w:PreprovisionedVm></E>";
    let entity = "<!DOCTYPE e [<!ENTITY a \"b\">]><E>&a;&#x10ffff;</E>";
    let seeds = [seed.as_bytes().to_vec(), entity.as_bytes().to_vec()];
    let mut chance = Chance(0xcd);
    let mut accepted = 0;
    for _ in 0..10_000 {
        match OvfEnv::parse(&chance.mutate(&seeds)) {
            Ok(_) => accepted += 1,
            Err(error) => assert!(!error.to_string().contains("hunter2")),
        }
    }
    assert!(accepted > 30, "only {accepted} inputs were parsed");
}

#[test]
fn parsing_random_vm_ids_ends_and_swapping_twice_is_the_identity() {
    let seeds = [b"16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90".to_vec(), "ä6a52d90-3c5f".as_bytes().to_vec()];
    let mut chance = Chance(0xd31);
    for _ in 0..5_000 {
        if let Ok(id) = String::from_utf8_lossy(&chance.mutate(&seeds)).parse::<VmId>() {
            assert_eq!(id.swapped().swapped(), id);
        }
    }
}

#[test]
fn requests_end_with_random_responses_of_the_metadata_service() {
    testkit::private().inside(|| {
        let seeds = [
        b"{\"compute\":{\"vmId\":\"a\",\"osProfile\":{\"computerName\":\"c\"},\"publicKeys\":[{\"keyData\":\"k\"}]}}"
            .to_vec(),
        b"{\"error\":\"x\"}".to_vec(),
    ];
        let chance = Arc::new(Mutex::new(Chance(0x1b)));
        let host = Host::new(move |_, _| {
            let mut chance = chance.lock().expect("no panic");
            let status = [200, 200, 200, 404, 410, 429, 500, 418, 0][chance.next(9)];
            let headers =
                ["", "Retry-After: -1\r\n", "Retry-After: 99999999999999999999\r\n", "X: \u{fe}\r\n", "broken\r\n"];
            let headers = headers[chance.next(headers.len())].to_owned();
            (status, headers, chance.mutate(&seeds))
        });
        let imds = Imds::new(&host.url, 1);
        for _ in 0..100 {
            let time = VirtualClock::default();
            let _ = imds.instance(Rules::IMDS, &time);
            let _ = imds.user_data(Rules::IMDS.once(), &time).map(|body| body.map(|body| decode(&body)));
        }
        assert!(host.requests().len() >= 200);
    });
}

#[test]
fn parsing_random_dhcp_packets_ends() {
    const HARDWARE: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    const NUMBER: u32 = 7;
    let mut message = vec![0; 240];
    message[..3].copy_from_slice(&[2, 1, 6]);
    message[4..8].copy_from_slice(&NUMBER.to_be_bytes());
    message[16..20].copy_from_slice(&[10, 0, 0, 4]);
    message[28..34].copy_from_slice(&HARDWARE);
    message[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    let options: [&[u8]; 4] = [
        &[53, 1, 5, 54, 4, 10, 0, 0, 1],
        &[1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1],
        &[121, 9, 32, 169, 254, 169, 254, 10, 0, 0, 1],
        &[255],
    ];
    message.extend(options.concat());
    let udp = u16::try_from(message.len() + 8).expect("short");
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 255, 255, 255, 255, 0, 67, 0, 68];
    packet[2..4].copy_from_slice(&(udp + 20).to_be_bytes());
    packet.extend(udp.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(&message);
    let seeds = [packet, message];
    let mut chance = Chance(0xd4c9);
    let (mut carried, mut read) = (0, 0);
    for _ in 0..20_000 {
        let bytes = chance.mutate(&seeds);
        let inner = kilnd::sources::dhcp::payload(&bytes);
        carried += u32::from(inner.is_some());
        if let Some(reply) = kilnd::sources::dhcp::Reply::parse(inner.unwrap_or(&bytes), HARDWARE, NUMBER) {
            assert!(reply.routes.len() <= 64 && reply.routes.iter().all(|route| route.prefix <= 32));
            read += 1;
        }
    }
    assert!(carried > 1000 && read > 1000, "only {carried} packets and {read} messages were parsed");
}
