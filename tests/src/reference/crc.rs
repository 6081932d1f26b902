//! The checksums that venues send with their books: CRC-32 over texts of the best levels.
//!
//! Never: a number that was parsed.

use super::book::Book;

/// Kraken's checksum covers this many levels of each side, whatever the depth.
const KRAKEN_LEVELS: usize = 10;
/// That of OKX and Bitget covers this many.
const INTERLEAVED_LEVELS: usize = 25;

/// Best asks upwards, then best bids downwards: price and quantity without points and leading zeros.
pub(super) fn kraken_text(book: &Book) -> String {
    let strip = |text: &str| text.replace('.', "").trim_start_matches('0').to_owned();
    book.asks
        .values()
        .take(KRAKEN_LEVELS)
        .chain(book.bids.values().rev().take(KRAKEN_LEVELS))
        .map(|(price, quantity)| strip(price) + &strip(quantity))
        .collect()
}

/// The best bid, the best ask, the next bid, …: price and quantity as they were sent, all separated by colons.
pub(super) fn interleaved_text(book: &Book) -> String {
    let (mut bids, mut asks) = (book.bids.values().rev(), book.asks.values());
    let mut words: Vec<&str> = Vec::new();
    for _ in 0..INTERLEAVED_LEVELS {
        for (price, quantity) in [bids.next(), asks.next()].into_iter().flatten() {
            words.extend([price.as_str(), quantity.as_str()]);
        }
    }
    words.join(":")
}

/// CRC-32 (IEEE), bit by bit.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::super::book::put;
    use super::*;

    #[test]
    fn the_checksum_is_the_common_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn ranks_interleave_and_a_missing_one_is_skipped() {
        let mut book = Book::default();
        put(&mut book.bids, "1.10", "3").unwrap();
        put(&mut book.bids, "1.2", "04.0").unwrap();
        put(&mut book.asks, "1.30", "5").unwrap();
        assert_eq!(interleaved_text(&book), "1.2:04.0:1.30:5:1.10:3");
        assert_eq!(kraken_text(&book), "1305".to_owned() + "1240" + "1103");
    }
}
