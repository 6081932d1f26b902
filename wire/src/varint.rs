//! The primitives: bytes, varints, signed varints, quantities, texts, counts.
//!
//! Never: an encoding of a value other than the one canonical; a read beyond the input.

use crate::error::{DecodeError, EncodeError};
use market::U256;

/// Seven bits a byte: 64 bits need ten.
const VARINT_BYTES_MAX: u32 = 10;

/// Writes a varint: seven bits a byte, lowest first, the high bit says that more follow.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        let [low, ..] = value.to_le_bytes();
        out.push(low | 0x80);
        value >>= 7;
    }
    let [low, ..] = value.to_le_bytes();
    out.push(low);
}

/// Writes a signed number: zigzag, then varint.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Writes a quantity: a length byte, then the big-endian bytes without leading zeros.
pub(crate) fn put_u256(out: &mut Vec<u8>, value: U256) {
    let bytes = value.to_be_bytes::<32>();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    out.push(u8::try_from(bytes.len() - zeros).unwrap_or(u8::MAX));
    out.extend(bytes.iter().skip(zeros));
}

/// Writes a byte that holds a signed exponent, in two's complement.
pub(crate) fn put_i8(out: &mut Vec<u8>, value: i8) {
    out.push(value.cast_unsigned());
}

/// Writes a text: its length in bytes, then its UTF-8.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, max: usize) -> Result<(), EncodeError> {
    if text.len() > max {
        return Err(EncodeError::TextTooLong { bytes: text.len(), max });
    }
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes the length of a list.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize, max: usize) -> Result<(), EncodeError> {
    if count > max {
        return Err(EncodeError::TooMany { count, max });
    }
    put_length(out, count);
    Ok(())
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(out, u64::try_from(length).unwrap_or(u64::MAX));
}

/// What is left of a message.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing { bytes: self.rest.len() }) }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if at == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(DecodeError::NumberRange);
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                return if byte == 0 && at > 0 { Err(DecodeError::NotCanonical) } else { Ok(value) };
            }
        }
        Err(DecodeError::NumberRange)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::NumberRange)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        u16::try_from(self.varint()?).map_err(|_| DecodeError::NumberRange)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, DecodeError> {
        let folded = self.varint()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    pub(crate) fn i8(&mut self) -> Result<i8, DecodeError> {
        Ok(self.byte()?.cast_signed())
    }

    pub(crate) fn u256(&mut self) -> Result<U256, DecodeError> {
        let length = self.byte()?;
        if length > 32 {
            return Err(DecodeError::QuantityTooLong { bytes: length });
        }
        let bytes = self.take(usize::from(length))?;
        if bytes.first() == Some(&0) {
            return Err(DecodeError::NotCanonical);
        }
        U256::try_from_be_slice(bytes).ok_or(DecodeError::NumberRange)
    }

    /// A byte of which only the low `bits` may be set.
    pub(crate) fn bits(&mut self, what: &'static str, bits: u32) -> Result<u8, DecodeError> {
        let byte = self.byte()?;
        if u32::from(byte) >> bits == 0 {
            Ok(byte)
        } else {
            Err(DecodeError::UnknownCode { what, value: u64::from(byte) })
        }
    }

    pub(crate) fn text(&mut self, max: usize) -> Result<Box<str>, DecodeError> {
        let bytes = self.varint()?;
        let length =
            usize::try_from(bytes).ok().filter(|len| *len <= max).ok_or(DecodeError::TextTooLong { bytes, max })?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(text.into())
    }

    /// The length of a list of which every entry has at least `entry_bytes_min` bytes, so that what is reserved for
    /// it is bounded by the input.
    pub(crate) fn count(&mut self, max: usize, entry_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        let length =
            usize::try_from(count).ok().filter(|length| *length <= max).ok_or(DecodeError::TooMany { count, max })?;
        if length > self.rest.len() / entry_bytes_min.max(1) {
            return Err(DecodeError::Truncated);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        out
    }

    #[test]
    fn numbers_beyond_two_to_the_53_keep_every_digit() {
        for value in [0, 127, 128, 9_007_199_254_740_993, 8_389_765_929_445_198_309, u64::MAX] {
            let bytes = varint(value);
            assert!(bytes.len() <= 10);
            assert_eq!(Reader::new(&bytes).varint(), Ok(value));
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            assert_eq!(Reader::new(&bytes).signed(), Ok(value));
        }
        for value in [U256::ZERO, U256::from(1_u64), U256::from(256_u64), U256::MAX] {
            let mut bytes = Vec::new();
            put_u256(&mut bytes, value);
            assert_eq!(Reader::new(&bytes).u256(), Ok(value));
        }
    }

    #[test]
    fn a_value_has_one_encoding() {
        assert_eq!(varint(300), [0xAC, 0x02]);
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), Err(DecodeError::NotCanonical));
        assert_eq!(Reader::new(&[0xFF; 9]).varint(), Err(DecodeError::Truncated));
        assert_eq!(Reader::new(&[0xFF; 10]).varint(), Err(DecodeError::NumberRange));
        let mut two = [0xFF; 10];
        two[9] = 2;
        assert_eq!(Reader::new(&two).varint(), Err(DecodeError::NumberRange));
        assert_eq!(Reader::new(&[1, 0]).u256(), Err(DecodeError::NotCanonical));
        assert_eq!(Reader::new(&[33]).u256(), Err(DecodeError::QuantityTooLong { bytes: 33 }));
    }

    #[test]
    fn a_count_beyond_the_input_reserves_nothing() {
        assert_eq!(Reader::new(&varint(1_000)).count(2_000, 2), Err(DecodeError::Truncated));
        assert_eq!(
            Reader::new(&varint(u64::MAX)).count(2_000, 2),
            Err(DecodeError::TooMany { count: u64::MAX, max: 2_000 })
        );
    }
}
