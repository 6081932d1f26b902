//! The block framing of compressed inserts: `[16 checksum][1 method][4 compressed size][4 raw size][data]`.
//!
//! Never: more bytes than the bound; the checksum is not compared, the loopback interface being no disk.

use super::request::RequestError;

/// Checksum, method and the two sizes.
const HEADER_BYTES: usize = 25;
const CHECKSUM_BYTES: usize = 16;
/// Method and sizes are counted in the compressed size, the checksum is not.
const COUNTED_BYTES: usize = HEADER_BYTES - CHECKSUM_BYTES;
const METHOD_NONE: u8 = 0x02;
const METHOD_LZ4: u8 = 0x82;

/// Undoes the framing; at most `bytes_max` come out.
pub(super) fn decompress(mut framed: &[u8], bytes_max: usize) -> Result<Vec<u8>, RequestError> {
    let mut out = Vec::new();
    while !framed.is_empty() {
        let (block, rest) = split_block(framed).ok_or(RequestError::Compressed("truncated or malformed block"))?;
        framed = rest;
        if out.len().saturating_add(block.raw_bytes) > bytes_max {
            return Err(RequestError::TooLarge);
        }
        let before = out.len();
        match block.method {
            METHOD_NONE => out.extend_from_slice(block.data),
            METHOD_LZ4 => {
                let raw = lz4_flex::block::decompress(block.data, block.raw_bytes);
                out.extend(raw.map_err(|_| RequestError::Compressed("damaged lz4 block"))?);
            }
            _ => return Err(RequestError::Compressed("method other than lz4 or none")),
        }
        if out.len() - before != block.raw_bytes {
            return Err(RequestError::Compressed("block of another size than it says"));
        }
    }
    Ok(out)
}

struct Block<'a> {
    method: u8,
    raw_bytes: usize,
    data: &'a [u8],
}

fn split_block(framed: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let (_, counted) = framed.split_at_checked(CHECKSUM_BYTES)?;
    let (method, sizes) = counted.split_first()?;
    let (compressed, sizes) = sizes.split_first_chunk::<4>()?;
    let (raw, _) = sizes.split_first_chunk::<4>()?;
    let bytes = usize::try_from(u32::from_le_bytes(*compressed)).ok()?;
    let (block, rest) = counted.split_at_checked(bytes)?;
    let raw_bytes = usize::try_from(u32::from_le_bytes(*raw)).ok()?;
    Some((Block { method: *method, raw_bytes, data: block.get(COUNTED_BYTES..)? }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(method: u8, raw_bytes: usize, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; CHECKSUM_BYTES];
        out.push(method);
        out.extend(u32::try_from(data.len() + COUNTED_BYTES).unwrap().to_le_bytes());
        out.extend(u32::try_from(raw_bytes).unwrap().to_le_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn blocks_come_out_joined() {
        let text = b"ababababababababab".repeat(20);
        let mut all = framed(METHOD_LZ4, text.len(), &lz4_flex::block::compress(&text));
        all.extend(framed(METHOD_NONE, 3, b"end"));
        assert_eq!(decompress(&all, 1_000).unwrap(), [text.as_slice(), b"end"].concat());
        assert!(matches!(decompress(&all, 100), Err(RequestError::TooLarge)));
    }

    #[test]
    fn any_cut_or_lie_is_an_error() {
        let whole = framed(METHOD_LZ4, 40, &lz4_flex::block::compress(&[7; 40]));
        for cut in 1..whole.len() {
            assert!(decompress(&whole[..cut], 1_000).is_err(), "cut at {cut}");
        }
        assert!(decompress(&framed(0x90, 3, b"abc"), 1_000).is_err());
        assert!(decompress(&framed(METHOD_LZ4, 41, &lz4_flex::block::compress(&[7; 40])), 1_000).is_err());
        let mut short = framed(METHOD_NONE, 3, b"abc");
        short[17] = 5;
        assert!(decompress(&short, 1_000).is_err());
    }
}
