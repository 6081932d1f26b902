//! Every attribute that is missing, unreadable or contradicts another.
//!
//! Never: a server.

use super::*;
use foldhash::HashMap;
use proptest::prelude::*;

const ID: &str = "00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";

fn parse(attributes: &[(&str, &str)]) -> Result<BatchHeader, HeaderError> {
    let map: HashMap<&str, &str> = attributes.iter().copied().collect();
    BatchHeader::parse(|name| map.get(name).copied())
}

/// A good header with some attributes changed; an empty value takes one away.
fn with(changes: &[(&'static str, &'static str)]) -> Result<BatchHeader, HeaderError> {
    let mut all = vec![(STREAM, "neutron-1"), (HEIGHT, "7"), (PREVIOUS, "5"), (BATCH_ID, ID)];
    for (name, value) in changes {
        all.retain(|(known, _)| known != name);
        all.push((name, value));
    }
    all.retain(|(_, value)| !value.is_empty());
    parse(&all)
}

#[test]
fn what_is_absent_has_its_default() {
    let header = with(&[("content-type", "application/json"), ("googclient_x", "1")]).unwrap();
    assert_eq!(header.kind, BatchKind::Block);
    assert_eq!((header.encoding, header.block_time_ns), (Encoding::Identity, 0));
    assert_eq!((header.part, header.parts), (0, 1));
    assert_eq!(header.name(), BatchName { height: 7, previous: 5, kind: BatchKind::Block, id: header.id });
}

#[test]
fn what_must_be_there_is_named() {
    for name in [STREAM, HEIGHT, PREVIOUS, BATCH_ID] {
        assert_eq!(with(&[(name, "")]), Err(HeaderError::Missing(name)), "{name}");
    }
    assert_eq!(with(&[(PARTS, "2")]), Err(HeaderError::Missing(PART)));
    assert_eq!(with(&[(PART, "0")]), Err(HeaderError::PartAlone));
}

#[test]
fn numbers_are_digits_within_their_range() {
    for text in ["x", "-1", "+1", "1e3", "1.0", " 1", "0x1", "١"] {
        assert_eq!(with(&[(HEIGHT, text)]), Err(HeaderError::Number(HEIGHT)), "{text:?}");
        assert_eq!(with(&[(PREVIOUS, text)]), Err(HeaderError::Number(PREVIOUS)), "{text:?}");
        assert_eq!(with(&[(PART, text), (PARTS, "2")]), Err(HeaderError::Number(PART)), "{text:?}");
        assert_eq!(with(&[(PART, "0"), (PARTS, text)]), Err(HeaderError::Number(PARTS)), "{text:?}");
    }
    assert_eq!(with(&[(HEIGHT, "17179869183")]).unwrap().height, HEIGHT_MAX);
    assert_eq!(with(&[(HEIGHT, "17179869184")]), Err(HeaderError::Range(HEIGHT)));
    assert_eq!(with(&[(HEIGHT, "18446744073709551616")]), Err(HeaderError::Range(HEIGHT)));
    assert_eq!(with(&[(PART, "0"), (PARTS, "4294967296")]), Err(HeaderError::Range(PARTS)));
}

#[test]
fn contradictions_are_named() {
    assert_eq!(with(&[(PREVIOUS, "7")]), Err(HeaderError::Previous { height: 7, previous: 7 }));
    assert_eq!(with(&[(PREVIOUS, "8")]), Err(HeaderError::Previous { height: 7, previous: 8 }));
    let snapshot = with(&[(KIND, "snapshot")]);
    assert_eq!(snapshot, Err(HeaderError::SnapshotPrevious { height: 7, previous: 5 }));
    assert_eq!(with(&[(KIND, "snapshot"), (PREVIOUS, "")]).unwrap().previous, 7);
    assert_eq!(with(&[(PART, "2"), (PARTS, "2")]), Err(HeaderError::Part { part: 2, parts: 2 }));
    assert_eq!(with(&[(PART, "0"), (PARTS, "65")]), Err(HeaderError::Parts(65)));
    assert_eq!(with(&[(PART, "0"), (PARTS, "0")]), Err(HeaderError::Parts(0)));
    assert_eq!(with(&[(PART, "63"), (PARTS, "64")]).unwrap().part, 63);
}

#[test]
fn words_are_known_ones() {
    assert_eq!(with(&[(KIND, "Block")]), Err(HeaderError::Kind(UnknownKind)));
    assert_eq!(with(&[(ENCODING, "brotli")]), Err(HeaderError::Encoding(UnknownEncoding)));
    let upper = "00FF00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";
    let long = "0000ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";
    for id in ["00", "xyz", upper, long, "é"] {
        assert_eq!(with(&[(BATCH_ID, id)]), Err(HeaderError::Id), "{id}");
    }
    let long = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
    for stream in ["a/b", "a b", "é", long] {
        assert_eq!(with(&[(STREAM, stream)]), Err(HeaderError::Stream), "{stream}");
    }
    assert_eq!(parse(&[(STREAM, "")]), Err(HeaderError::Stream));
}

/// A time before any block or after 2199 is nobody's; 1969 must not become a year of the far future.
#[test]
fn times_that_no_block_has_are_refused() {
    let implausible = |second| Err(HeaderError::TimeImplausible { second });
    assert_eq!(with(&[(BLOCK_TIME, "1969-12-31T23:59:59Z")]), implausible(-1));
    assert_eq!(with(&[(BLOCK_TIME, "1970-01-01T00:00:00Z")]), implausible(0));
    assert_eq!(with(&[(BLOCK_TIME, "2200-01-01T00:00:00Z")]), implausible(7_258_118_400));
    assert_eq!(with(&[(BLOCK_TIME, "9999-01-01T00:00:00Z")]), implausible(253_370_764_800));
    for text in ["yesterday", "1700000000", "2024-02-30T00:00:00Z", "2024-01-01", "2024-01-01T00:00:00"] {
        assert_eq!(with(&[(BLOCK_TIME, text)]), Err(HeaderError::Time), "{text}");
    }
}

/// What a block's time has below the second stays, to the nanosecond.
#[test]
fn fractions_of_a_second_stay() {
    for (text, ns) in [
        ("2023-05-01T12:00:18.345Z", 1_682_942_418_345_000_000),
        ("2023-05-01T14:00:18.345+02:00", 1_682_942_418_345_000_000),
        ("2023-05-01T12:00:18.000000001Z", 1_682_942_418_000_000_001),
        ("2000-01-01T00:00:00Z", 946_684_800_000_000_000),
        ("2199-12-31T23:59:59.999999999Z", 7_258_118_399_999_999_999),
    ] {
        let header = with(&[(BLOCK_TIME, text)]).unwrap();
        assert_eq!(header.block_time_ns, ns, "{text}");
        let attributes = header.attributes();
        let again = BatchHeader::parse(|name| {
            attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        });
        assert_eq!(again, Ok(header), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        stream in "[a-z0-9._:-]{1,64}",
        snapshot in any::<bool>(),
        (height, back) in (1..=HEIGHT_MAX, 1_u64..1_000),
        id in any::<[u8; 32]>(),
        encoding in prop::sample::select(vec![Encoding::Identity, Encoding::Gzip, Encoding::Zstd]),
        block_time_ns in prop_oneof![Just(0), 946_684_800_000_000_000_u64..7_258_118_400_000_000_000],
        (part, more) in (0_u32..32, 1_u32..=32),
    ) {
        let (kind, previous) =
            if snapshot { (BatchKind::Snapshot, height) } else { (BatchKind::Block, height.saturating_sub(back)) };
        let stream = stream.into();
        let parts = part + more;
        let header = BatchHeader { stream, kind, height, previous, id: BatchId(id), encoding, block_time_ns, part, parts };
        let map: HashMap<_, _> = header.attributes().into_iter().collect();
        prop_assert_eq!(BatchHeader::parse(|name| map.get(name).map(String::as_str)), Ok(header));
    }

    #[test]
    fn any_attributes_are_a_header_or_an_error(values in prop::collection::vec(".{0,20}", 9)) {
        let names = [STREAM, KIND, HEIGHT, PREVIOUS, BATCH_ID, ENCODING, BLOCK_TIME, PART, PARTS];
        let map: HashMap<&str, &str> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
        if let Ok(header) = BatchHeader::parse(|name| map.get(name).copied()) {
            prop_assert!(header.part < header.parts && header.parts <= PARTS_MAX);
        }
    }
}
