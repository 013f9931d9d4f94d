//! Random bytes of the kernel, and ids made from them.

use kiln_node_config::canonical::hex;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::os::error::Error;

/// Random bytes. Early in a boot this waits until the kernel's generator is initialized.
pub fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut all = [0; N];
    let mut done = 0;
    while done < N {
        match getrandom(&mut all[done..], GetRandomFlags::empty()) {
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::io("read", "random bytes", errno)),
        }
    }
    Ok(all)
}

/// A random UUID without dashes, the format of machine ids.
pub fn id() -> Result<String, Error> {
    let mut bytes = bytes::<16>()?;
    // Version 4, variant 1: a random UUID.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(hex(&bytes))
}

/// A random UUID.
pub fn uuid() -> Result<String, Error> {
    let id = id()?;
    Ok(format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_4_uuids() {
        let (one, other) = (uuid().expect("an id"), uuid().expect("an id"));
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(one.as_bytes()[14] == b'4' && b"89ab".contains(&one.as_bytes()[19]), "{one}");
        assert_eq!(id().expect("an id").len(), 32);
    }
}
