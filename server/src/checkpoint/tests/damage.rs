//! Damaged files: each is ignored with its reason, none is half believed, none ends the process.
//!
//! Never: a damage that is only probable; every byte and every length is tried.

use super::*;
use crate::checkpoint::{
    codec::{BYTE_ORDER, FORMAT, LAYOUT},
    writer::sealed,
};

/// What is done to something.
type Change<T> = fn(&mut T);

/// A file's content that can be changed and sealed again.
struct Forged {
    header: Header,
    levels: Vec<LevelRecord>,
    instruments: Vec<InstrumentRecord>,
    names: Vec<u8>,
}

impl Forged {
    fn of(tape: &Tape) -> Self {
        let mut bytes = tape.bytes();
        let header = codec::decode::<Header>(&mut bytes).next().unwrap();
        let levels_end = Header::BYTES + usize::try_from(header.levels).unwrap() * LevelRecord::BYTES;
        let instruments_end = levels_end + usize::try_from(header.instruments).unwrap() * InstrumentRecord::BYTES;
        Self {
            header,
            levels: codec::decode(&mut bytes[Header::BYTES..levels_end]).collect(),
            instruments: codec::decode(&mut bytes[levels_end..instruments_end]).collect(),
            names: bytes[instruments_end..].to_vec(),
        }
    }

    /// The bytes with right checksums and counts.
    fn bytes(&self) -> Vec<u8> {
        let (mut levels, mut instruments) = (Vec::new(), Vec::new());
        codec::encode(&self.levels, &mut levels).unwrap();
        codec::encode(&self.instruments, &mut instruments).unwrap();
        let header = Header {
            levels: u64::try_from(self.levels.len()).unwrap(),
            instruments: u32::try_from(self.instruments.len()).unwrap(),
            name_bytes: u64::try_from(self.names.len()).unwrap(),
            levels_crc: crc32fast::hash(&levels),
            instruments_crc: crc32fast::hash(&instruments),
            names_crc: crc32fast::hash(&self.names),
            ..self.header
        };
        [sealed(header).unwrap(), levels, instruments, self.names.clone()].concat()
    }
}

fn reason(mut bytes: Vec<u8>) -> Ignored {
    parse(&mut bytes).unwrap_err()
}

#[test]
fn every_flipped_bit_is_noticed() {
    let good = Tape::with_books(3, 4).bytes();
    assert!(parse(&mut good.clone()).is_ok());
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            let found = parse(&mut bytes);
            assert!(found.is_err(), "bit {bit} of byte {at}: {found:?}");
        }
    }
}

#[test]
fn every_length_but_the_right_one_is_refused() {
    let mut good = Tape::with_books(3, 4).bytes();
    for end in 0..good.len() {
        let found = parse(&mut good.clone()[..end]);
        assert!(matches!(found, Err(Ignored::Length { bytes }) if bytes == u64::try_from(end).unwrap()), "{found:?}");
    }
    good.push(0);
    assert!(matches!(reason(good), Ignored::Length { .. }));
}

#[test]
fn each_reason_has_its_name() {
    let forged = Forged::of(&Tape::with_books(2, 2));
    let with = |change: Change<Header>| {
        let mut header = forged.header;
        change(&mut header);
        let mut bytes = sealed(header).unwrap();
        bytes.extend_from_slice(&forged.bytes()[Header::BYTES..]);
        reason(bytes)
    };
    assert!(matches!(with(|header| header.magic[0] = b'X'), Ignored::Magic));
    assert!(matches!(with(|header| header.byte_order = BYTE_ORDER.swap_bytes()), Ignored::ByteOrder));
    assert!(matches!(with(|header| header.format = FORMAT + 1), Ignored::Format { found } if found == FORMAT + 1));
    assert!(matches!(with(|header| header.layout = LAYOUT ^ 1), Ignored::Layout));
    assert!(matches!(with(|header| header.levels += 1), Ignored::Length { .. }));
    assert!(matches!(with(|header| header.levels = u64::MAX), Ignored::Length { .. }));
    assert!(matches!(with(|header| header.name_bytes = u64::MAX), Ignored::Length { .. }));
    let sections: [(Change<Header>, Section); 3] = [
        (|header| header.levels_crc ^= 1, Section::Levels),
        (|header| header.instruments_crc ^= 1, Section::Instruments),
        (|header| header.names_crc ^= 1, Section::Names),
    ];
    for (change, expected) in sections {
        let found = with(change);
        assert!(matches!(found, Ignored::Checksum { section } if section == expected), "{found:?}");
    }
    let mut bytes = forged.bytes();
    bytes[Header::BYTES - 1] ^= 1;
    assert!(matches!(reason(bytes), Ignored::Checksum { section: Section::Header }));
}

#[test]
fn a_file_of_the_other_byte_order_is_known_as_one() {
    // Every field spelled backwards, as such a machine would; only what is looked at before the checksum matters.
    let mut bytes = Tape::with_books(1, 1).bytes();
    bytes[8..16].reverse();
    assert!(matches!(reason(bytes), Ignored::ByteOrder));
}

#[test]
fn records_that_make_no_sense_are_refused_although_every_checksum_matches() {
    let tape = Tape::with_books(2, 3);
    assert!(parse(&mut Forged::of(&tape).bytes()).is_ok());
    let changes: [(Change<Forged>, Flaw); 14] = [
        (|forged| forged.instruments[0].venue = 200, Flaw::Venue),
        (|forged| forged.names[0] = 0xFF, Flaw::Name),
        (|forged| forged.instruments[1].price = 39, Flaw::Scale),
        (|forged| forged.instruments[1].quantity = -39, Flaw::Scale),
        (|forged| forged.levels.swap(0, 1), Flaw::Order),
        (|forged| forged.levels[4] = forged.levels[3], Flaw::Order),
        (|forged| forged.levels[2].quantity = [0; 4], Flaw::Quantity),
        (|forged| forged.header.greatest_epoch = 1, Flaw::Epoch),
        (|forged| forged.instruments[1].asks -= 1, Flaw::Counts),
        (|forged| forged.instruments[1].asks += 1, Flaw::Counts),
        (|forged| forged.instruments[1].asset_1_bytes -= 1, Flaw::Counts),
        (|forged| forged.instruments[1].asset_1_bytes += 1, Flaw::Counts),
        (|forged| forged.instruments[0].reserved[3] = 1, Flaw::Reserved),
        (
            |forged| {
                forged.instruments[1] = forged.instruments[0];
                let half = forged.names.len() / 2;
                forged.names.copy_within(..half, half);
            },
            Flaw::Twice,
        ),
    ];
    for (change, expected) in changes {
        let mut forged = Forged::of(&tape);
        change(&mut forged);
        let found = reason(forged.bytes());
        assert!(matches!(found, Ignored::Content(flaw) if flaw == expected), "{found:?} instead of {expected:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_and_none_ends_the_process(mut bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(parse(&mut bytes).is_err());
    }

    #[test]
    fn any_sealed_header_over_any_bytes_is_refused_or_read(
        counts in any::<(u32, u64, u64)>(),
        small in any::<bool>(),
        rest in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut header = Forged::of(&Tape::with_books(1, 1)).header;
        let (instruments, levels, name_bytes) = counts;
        let limit = if small { 8 } else { u64::MAX };
        header.instruments = instruments % 8;
        (header.levels, header.name_bytes) = (levels % limit, name_bytes % limit);
        let mut bytes = sealed(header).unwrap();
        bytes.extend_from_slice(&rest);
        prop_assert!(parse(&mut bytes).is_err());
    }

    #[test]
    fn any_records_under_right_checksums_are_refused_or_read(
        records in proptest::collection::vec(any::<[u8; 48]>(), 0..4),
        mut levels in proptest::collection::vec(any::<[u8; 40]>(), 0..8),
        names in proptest::collection::vec(any::<u8>(), 0..64),
        counts in any::<[u8; 12]>(),
    ) {
        let mut forged = Forged::of(&Tape::with_books(1, 1));
        forged.instruments = records
            .into_iter()
            .zip(counts.chunks(3))
            .flat_map(|(mut record, count)| codec::decode::<InstrumentRecord>(&mut record).next().map(|record| {
                // Small counts, so that some of them fit.
                let [bids, asks, name] = [0, 1, 2].map(|at| u32::from(count[at] % 4));
                let name = u16::try_from(name).unwrap();
                let names = InstrumentRecord { symbol_bytes: name, asset_0_bytes: name, asset_1_bytes: name, ..record };
                InstrumentRecord { bids, asks, venue: record.venue % 3, reserved: [0; 7], ..names }
            }))
            .collect();
        forged.levels = levels.iter_mut().filter_map(|bytes| codec::decode(bytes).next()).collect();
        forged.names = names;
        forged.header.greatest_epoch = u64::MAX;
        if let Ok(checkpoint) = parse(&mut forged.bytes()) {
            prop_assert_eq!(checkpoint.instruments.len(), forged.instruments.len());
        }
    }
}
