//! Contents that come out as they went in, and those that must not.
//!
//! Never: a server.

use super::*;
use market::batch::BatchKind;
use proptest::prelude::*;
use rand::RngExt;

const ALL: [Encoding; 3] = [Encoding::Identity, Encoding::Gzip, Encoding::Zstd];

fn header(content: &[u8], encoding: Encoding) -> BatchHeader {
    BatchHeader {
        stream: "neutron-1".into(),
        kind: BatchKind::Block,
        height: 2,
        previous: 1,
        id: batch_id(content),
        encoding,
        block_time_ns: 0,
        part: 0,
        parts: 1,
    }
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    rand::rng().fill(noise.as_mut_slice());
    noise
}

#[test]
fn the_digest_is_sha_256() {
    let id = batch_id(b"abc");
    assert_eq!(super::super::header::hex(id), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn parts_are_as_large_as_they_may_be() {
    let content = noise(1_000);
    for (max, sizes) in [(1_000, vec![1_000]), (999, vec![999, 1]), (400, vec![400, 400, 200])] {
        let parts = pack(&content, Encoding::Identity, max).unwrap();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), sizes);
        assert_eq!(open(&header(&content, Encoding::Identity), &parts, 1_000).unwrap(), content);
    }
}

#[test]
fn too_many_parts_are_refused() {
    let content = noise(64_001);
    assert!(matches!(
        pack(&content, Encoding::Identity, 1_000),
        Err(ContentError::TooManyParts { bytes: 64_001, each: 1_000 })
    ));
    assert_eq!(pack(&content[..64_000], Encoding::Identity, 1_000).unwrap().len(), 64);
    assert!(matches!(pack(&content, Encoding::Identity, 0), Err(ContentError::TooManyParts { .. })));
}

#[test]
fn a_bomb_ends_at_the_bound() {
    let bomb = vec![0; 50_000_000];
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let parts = pack(&bomb, encoding, 1_000_000).unwrap();
        assert_eq!(parts.len(), 1);
        assert!(matches!(unpack(encoding, &parts[0], 1_000_000), Err(ContentError::TooLarge { max: 1_000_000 })));
        assert_eq!(unpack(encoding, &parts[0], bomb.len()).unwrap().len(), bomb.len());
        assert!(matches!(unpack(encoding, &parts[0], bomb.len() - 1), Err(ContentError::TooLarge { .. })));
    }
    assert!(matches!(unpack(Encoding::Identity, &bomb, 1_000), Err(ContentError::TooLarge { max: 1_000 })));
}

#[test]
fn what_follows_a_content_or_lacks_its_end_is_refused() {
    let content = noise(5_000);
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        let packed = pack(&content, encoding, 1_000_000).unwrap().remove(0).to_vec();
        for garbage in [&b"\0"[..], b"x", b"more of it", &[0; 40]] {
            let longer = [&packed[..], garbage].concat();
            let opened = unpack(encoding, &longer, 1_000_000);
            assert!(matches!(opened, Err(ContentError::Encoded { .. })), "{encoding:?} {garbage:?}");
        }
        for end in [1, 4, 10, packed.len() / 2, packed.len() - 1] {
            let opened = unpack(encoding, &packed[..end], 1_000_000);
            assert!(matches!(opened, Err(ContentError::Encoded { .. })), "{encoding:?} {end}");
        }
    }
}

#[test]
fn nothing_is_no_content() {
    for encoding in ALL {
        assert!(matches!(pack(b"", encoding, 100), Err(ContentError::Empty)));
        assert!(matches!(unpack(encoding, b"", 100), Err(ContentError::Empty)));
        assert!(matches!(open(&header(b"", encoding), &[Bytes::new(), Bytes::new()], 100), Err(ContentError::Empty)));
    }
    assert!(matches!(unpack(Encoding::Gzip, &gzip(b"").unwrap(), 100), Err(ContentError::Empty)));
}

#[test]
fn another_content_is_refused() {
    for encoding in ALL {
        let parts = pack(b"content", encoding, 100).unwrap();
        let opened = open(&header(b"contents", encoding), &parts, 100);
        assert!(matches!(opened, Err(ContentError::Digest { is }) if is == batch_id(b"content")));
    }
    let plain = pack(b"content", Encoding::Identity, 100).unwrap();
    assert!(matches!(open(&header(b"content", Encoding::Zstd), &plain, 100), Err(ContentError::Encoded { .. })));
    assert!(matches!(open(&header(b"content", Encoding::Gzip), &plain, 100), Err(ContentError::Encoded { .. })));
}

/// What other tools write in several members or frames.
#[test]
fn members_and_frames_are_read_one_after_another() {
    let members = [gzip(b"one ").unwrap(), gzip(b"two").unwrap()].concat();
    assert_eq!(unpack(Encoding::Gzip, &members, 100).unwrap(), b"one two");
    let frame = |text: &[u8]| zstd::bulk::compress(text, 1).unwrap();
    assert_eq!(unpack(Encoding::Zstd, &[frame(b"one "), frame(b"two")].concat(), 100).unwrap(), b"one two");
}

proptest! {
    #[test]
    fn what_is_packed_is_opened(
        content in prop::collection::vec(any::<u8>(), 1..5_000),
        encoding in prop::sample::select(ALL.to_vec()),
        each in 100_usize..3_000,
    ) {
        let parts = pack(&content, encoding, each).unwrap();
        prop_assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= each));
        prop_assert_eq!(open(&header(&content, encoding), &parts, content.len()).unwrap(), content);
    }

    #[test]
    fn any_bytes_are_a_content_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        encoding in prop::sample::select(ALL.to_vec()),
    ) {
        if let Ok(content) = unpack(encoding, &bytes, 1_000) {
            prop_assert!((1..=1_000).contains(&content.len()));
        }
    }
}
