//! gzip decompression with a size limit.

use std::io::Read as _;

use flate2::bufread::GzDecoder;

use super::{DECODED, DecodeError};

pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

pub(super) fn inflate(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    let limit = DECODED as u64 + 1;
    GzDecoder::new(bytes).take(limit).read_to_end(&mut out).map_err(|error| DecodeError::Gzip(error.to_string()))?;
    if out.len() > DECODED { Err(DecodeError::TooLarge) } else { Ok(out) }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn truncated_and_damaged_data_is_rejected() {
        let whole = deflate(b"{\"a\":[1,2,3,4,5,6,7,8,9]}");
        for length in 2..whole.len() {
            assert!(matches!(inflate(&whole[..length]), Err(DecodeError::Gzip(_))), "{length}");
        }
        let mut damaged = whole.clone();
        let crc = damaged.len() - 8;
        damaged[crc] ^= 1;
        assert!(matches!(inflate(&damaged), Err(DecodeError::Gzip(_))));
        assert!(inflate(&whole).is_ok());
    }
}
