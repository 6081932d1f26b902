//! Records of the checkpoint file and how they become bytes: the one place for `abomonation` and for the `unsafe` that
//! it needs (`docs/adr/0011-checkpoint-codec.md`).
//!
//! A record has a fixed layout without padding, and every pattern of bits is a value of each of its fields; both are
//! checked when this is compiled. Bytes are copied into a record, which the compiler has aligned; no reference is ever
//! made into the bytes themselves, so it does not matter where these stand.
//!
//! Never: `abomonation::decode`, which makes a reference to a whole record from one to its first byte; a field with a
//! pointer; bytes whose checksum was not compared before.

#![expect(
    unsafe_code,
    reason = "abomonation's methods are unsafe; the records here are plain bytes, as is asserted for each of them"
)]

use abomonation::Abomonation;
use market::Venue;
use std::{
    io::{self, Write},
    marker::PhantomData,
    mem::offset_of,
    ptr, slice,
};

/// What a record's field may be.
trait Bits {}

impl Bits for u8 {}
impl Bits for i8 {}
impl Bits for u16 {}
impl Bits for u32 {}
impl Bits for u64 {}
impl Bits for i64 {}
impl<T: Bits, const N: usize> Bits for [T; N] {}

/// A field: name, offset and size in bytes.
type Field = (&'static str, usize, usize);

/// A record, made by `record!` alone.
pub trait Record: Abomonation + Copy + Default + Sealed {
    /// Its size in bytes, in memory and in the file.
    const BYTES: usize;
}

/// Keeps other types from being records.
pub trait Sealed {}

/// Fails to compile for a field of another type.
const fn is_bits<T: Bits>() -> bool {
    true
}

/// Whether each field begins where the one before ends, and the last one ends with the record.
const fn is_dense(fields: &[Field], bytes: usize) -> bool {
    let (mut at, mut end) = (0, 0);
    while at < fields.len() {
        let (_, offset, size) = fields[at];
        if offset != end {
            return false;
        }
        end += size;
        at += 1;
    }
    end == bytes
}

macro_rules! record {
    ($(#[$about:meta])* $name:ident, $bytes:literal bytes { $($(#[$says:meta])* $field:ident: $kind:ty,)+ }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$says])* pub $field: $kind,)+ }

        impl $name {
            const FIELDS: &[Field] = &[$((stringify!($field), offset_of!($name, $field), size_of::<$kind>()),)+];
        }

        const _: () = {
            assert!($(is_bits::<$kind>())&&+);
            assert!(size_of::<$name>() == $bytes && align_of::<$name>() == 8);
            assert!(is_dense($name::FIELDS, $bytes));
        };

        impl Sealed for $name {}

        impl Record for $name {
            const BYTES: usize = $bytes;
        }

        impl Abomonation for $name {
            #[inline]
            unsafe fn entomb<W: Write>(&self, write: &mut W) -> io::Result<()> {
                // SAFETY: the record has no padding, so each of its bytes is initialised, and it outlives the slice.
                let bytes = unsafe { slice::from_raw_parts(ptr::from_ref(self).cast::<u8>(), $bytes) };
                write.write_all(bytes)
            }

            #[inline]
            unsafe fn exhume<'b>(&mut self, bytes: &'b mut [u8]) -> Option<&'b mut [u8]> {
                let (own, rest) = bytes.split_at_mut_checked($bytes)?;
                // SAFETY: both are that long and apart, and any bytes are values of the record's fields.
                unsafe { ptr::copy_nonoverlapping(own.as_ptr(), ptr::from_mut(self).cast::<u8>(), $bytes) };
                Some(rest)
            }

            #[inline]
            fn extent(&self) -> usize {
                $bytes
            }
        }
    };
}

record! {
    /// The begin of the file.
    Header, 88 bytes {
        /// [`MAGIC`].
        magic: [u8; 8],
        /// [`BYTE_ORDER`] as the writing machine spells it.
        byte_order: u64,
        /// [`LAYOUT`].
        layout: u64,
        /// [`FORMAT`].
        format: u32,
        /// Records of instruments.
        instruments: u32,
        /// Records of levels.
        levels: u64,
        /// Bytes of names.
        name_bytes: u64,
        /// First epoch of the block of the run that wrote it.
        block: u64,
        /// The greatest epoch of all instruments.
        greatest_epoch: u64,
        /// When it was written, Unix nanoseconds.
        written_ns: u64,
        /// CRC-32 of the levels' bytes.
        levels_crc: u32,
        /// CRC-32 of the instruments' bytes.
        instruments_crc: u32,
        /// CRC-32 of the names.
        names_crc: u32,
        /// CRC-32 of all bytes of the header before it.
        header_crc: u32,
    }
}

record! {
    /// An instrument. Its levels follow those of the instruments before it: bids, then asks, each side best first. So
    /// do its names: symbol, asset_0, asset_1.
    InstrumentRecord, 48 bytes {
        /// Of its version.
        epoch: u64,
        /// Of its version.
        seq: u64,
        /// When the last event that counted was received, Unix nanoseconds.
        heard_ns: u64,
        /// Levels of bids.
        bids: u32,
        /// Levels of asks.
        asks: u32,
        /// Bytes of its symbol.
        symbol_bytes: u16,
        /// Bytes of its base asset.
        asset_0_bytes: u16,
        /// Bytes of its quote asset.
        asset_1_bytes: u16,
        /// Place of its venue in [`Venue::ALL`].
        venue: u8,
        /// Decimal exponent of the price step.
        price: i8,
        /// Decimal exponent of the quantity step.
        quantity: i8,
        /// Zero.
        reserved: [u8; 7],
    }
}

record! {
    /// A level.
    LevelRecord, 40 bytes {
        /// Price in the instrument's price step.
        tick_index: i64,
        /// Quantity in the instrument's quantity step, the least significant part first.
        quantity: [u64; 4],
    }
}

/// The first bytes of the file.
pub const MAGIC: [u8; 8] = *b"SPRAGCKP";

/// Reads as another number on a machine of the other byte order.
pub const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;

/// Meaning of the fields; raised when it changes although their layout does not.
pub const FORMAT: u32 = 1;

/// A hash of everything that the bytes depend on: names, offsets and sizes of all fields, and the venues' places.
pub const LAYOUT: u64 = {
    let mut hash = 0xCBF2_9CE4_8422_2325;
    hash = hash_fields(hash, "header", Header::FIELDS);
    hash = hash_fields(hash, "instrument", InstrumentRecord::FIELDS);
    hash = hash_fields(hash, "level", LevelRecord::FIELDS);
    let mut at = 0;
    while at < Venue::ALL.len() {
        hash = hash_text(hash, Venue::ALL[at].name());
        at += 1;
    }
    hash
};

const fn hash_fields(mut hash: u64, record: &str, fields: &[Field]) -> u64 {
    hash = hash_text(hash, record);
    let mut at = 0;
    while at < fields.len() {
        let (name, offset, size) = fields[at];
        hash = hash_text(hash, name);
        // No offset and no size is above 88.
        hash = hash_byte(hash_byte(hash, offset.to_le_bytes()[0]), size.to_le_bytes()[0]);
        at += 1;
    }
    hash
}

const fn hash_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = hash_byte(hash, bytes[at]);
        at += 1;
    }
    hash_byte(hash, 0)
}

/// A step of FNV-1a, which a constant can be made with.
const fn hash_byte(hash: u64, byte: u8) -> u64 {
    let [low, rest @ ..] = hash.to_le_bytes();
    let [a, b, c, d, e, f, g] = rest;
    u64::from_le_bytes([low ^ byte, a, b, c, d, e, f, g]).wrapping_mul(0x0000_0100_0000_01B3)
}

/// Appends the records' bytes.
///
/// # Errors
/// None comes from memory; the interface of `abomonation` allows one.
pub fn encode<R: Record>(records: &[R], into: &mut Vec<u8>) -> io::Result<()> {
    into.reserve(records.len().saturating_mul(R::BYTES));
    // SAFETY: the method is unsafe for types with padding or pointers, which no record has.
    records.iter().try_for_each(|record| unsafe { record.entomb(into) })
}

/// Takes records from the begin of bytes until there are not enough for another one.
#[derive(Debug)]
pub struct Records<'a, R> {
    rest: &'a mut [u8],
    kind: PhantomData<R>,
}

/// The records that the bytes hold. The bytes are not changed; `abomonation` wants them to be exclusive.
pub fn decode<R: Record>(bytes: &mut [u8]) -> Records<'_, R> {
    Records { rest: bytes, kind: PhantomData }
}

impl<R: Record> Iterator for Records<'_, R> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        let mut record = R::default();
        let rest = std::mem::take(&mut self.rest);
        // SAFETY: the method is unsafe for types that not all bytes are values of; all are of a record.
        self.rest = unsafe { record.exhume(rest) }?;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.rest.len() / R::BYTES;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(seed: u64) -> LevelRecord {
        let quantity = [seed, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), !seed, seed << 32];
        LevelRecord { tick_index: i64::from_ne_bytes(quantity[1].to_ne_bytes()), quantity }
    }

    #[test]
    fn bytes_are_the_fields_in_order_in_the_machine_s_own_spelling() {
        let mut bytes = Vec::new();
        encode(&[level(7)], &mut bytes).unwrap();
        let mut expected = level(7).tick_index.to_ne_bytes().to_vec();
        expected.extend(level(7).quantity.iter().flat_map(|limb| limb.to_ne_bytes()));
        assert_eq!(bytes, expected);
    }

    #[test]
    fn records_are_the_same_wherever_their_bytes_stand() {
        let levels: Vec<_> = (0..9).map(level).collect();
        for shift in 0..8 {
            let mut bytes = vec![0xAA; shift];
            encode(&levels, &mut bytes).unwrap();
            assert_eq!(decode::<LevelRecord>(&mut bytes[shift..]).collect::<Vec<_>>(), levels);
        }
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        let mut bytes = Vec::new();
        encode(&[level(1), level(2)], &mut bytes).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(decode::<LevelRecord>(&mut bytes[..end]).count(), end / LevelRecord::BYTES);
        }
        assert_eq!(decode::<LevelRecord>(&mut bytes).count(), 2);
    }

    #[test]
    fn any_bytes_are_a_record() {
        for byte in [0x00, 0x55, 0x80, 0xFF] {
            let mut bytes = [byte; Header::BYTES];
            let header = decode::<Header>(&mut bytes).next().unwrap();
            let mut again = Vec::new();
            encode(&[header], &mut again).unwrap();
            assert_eq!(again, bytes);
        }
    }

    #[test]
    fn the_layout_is_the_one_of_format_1() {
        // A change of this number means that older files are ignored: right, but it should be noticed.
        assert_eq!((FORMAT, LAYOUT), (1, 0x6985_5DE6_947F_430D));
        assert_eq!(offset_of!(Header, header_crc), Header::BYTES - 4);
    }

    #[test]
    fn a_gap_between_fields_is_seen() {
        assert!(is_dense(&[("a", 0, 8), ("b", 8, 4), ("c", 12, 4)], 16));
        assert!(!is_dense(&[("a", 0, 4), ("b", 8, 8)], 16));
        assert!(!is_dense(&[("a", 0, 8), ("b", 8, 4)], 16));
    }
}
