//! Blocks of the Neutron exchange: the decoder, its feed and the whole pipeline against references that share no code, on
//! every recorded block and on made-up chains in every dialect.
//!
//! Never: a dialect that decides about a book.

use crate::{
    frames::write,
    pipeline::{feed_counts, options, run},
};
use connectors::{
    capture::MergedCaptures,
    neutron_dex::{
        Block,
        feed::{At, BlockFeed},
        generator::{DexGenerator, DexOptions, Dialect, GeneratedBatch, LiveTick},
        message::{decode_block, decode_snapshot},
    },
    raw::{RawFrame, RawKind, RawPayload},
    venue_feed::listings::Listings,
};
use market::{
    AdmittedChanges, Body, Directory, Event, LegId, Side, SymbolId, TickChange, TickKey, Tranches, U256, Venue, batch,
};
use server::replay::{Kept, ReplayOptions, replay};
use sprag_tests::{
    corpus,
    reference::{
        self, FinalBook,
        neutron_dex::{Chain, Counts},
    },
};
use std::{collections::BTreeMap, io::Read, path::Path, process::Command, sync::Arc};
use tempfile::NamedTempFile;

const DIALECTS: [Dialect; 4] = [Dialect::Tendermint034, Dialect::Comet037, Dialect::Comet038, Dialect::Mixed];

/// Events of the recorded block of Osmosis, of all kinds.
const OSMOSIS: u64 = 562;

/// What rests, in the reference's words: by symbol, bids and asks.
type Books = BTreeMap<String, [Vec<(String, String)>; 2]>;

/// All ticks by instrument, applied one by one.
#[derive(Default)]
struct Ticks(BTreeMap<SymbolId, BTreeMap<(Side, TickKey), U256>>);

impl Ticks {
    fn apply(&mut self, symbol: SymbolId, changes: &[TickChange]) {
        let book = self.0.entry(symbol).or_default();
        for change in changes {
            let key = (change.side, change.key);
            if change.reserves.is_zero() {
                book.remove(&key)
            } else {
                book.insert(key, change.reserves)
            };
        }
    }

    fn take(&mut self, event: &Event) {
        match &event.body {
            Body::Delta(delta) => self.apply(event.symbol, &delta.changes),
            Body::Snapshot(snapshot) => {
                self.0.insert(event.symbol, BTreeMap::new());
                self.apply(event.symbol, &snapshot.ticks);
            }
            _ => {}
        }
    }

    fn admitted(&mut self, changes: &AdmittedChanges) {
        assert_eq!(changes.places.len(), changes.changes.len());
        assert!(changes.places.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(changes.places.last(), Some(&changes.version.seq));
        self.apply(changes.symbol, &changes.changes);
    }

    fn books(&self, directory: &Directory, tranches: &Tranches) -> Books {
        let row = |((side, key), reserves): (&(Side, TickKey), &U256)| {
            let maker = match tranches.name(key.tranche).unwrap() {
                name if name.is_empty() => format!("fee {}", key.fee),
                name => format!("tranche {name}"),
            };
            let index = if *side == Side::Ask { key.tick_index } else { -key.tick_index };
            (*side, index, maker, spelled(*reserves))
        };
        let book = |(symbol, book): (&SymbolId, &BTreeMap<_, _>)| {
            (directory.get(*symbol).unwrap().symbol.to_string(), sides(book.iter().map(row).collect()))
        };
        self.0.iter().map(book).filter(|(_, sides)| sides.iter().any(|side| !side.is_empty())).collect()
    }
}

/// Steps of 10^-27 as a decimal without zeros at the end.
fn spelled(reserves: U256) -> String {
    let digits = format!("{reserves:0>28}");
    let (whole, part) = digits.split_at(digits.len() - 27);
    format!("{whole}.{part}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn sides(mut rows: Vec<(Side, i64, String, String)>) -> [Vec<(String, String)>; 2] {
    rows.sort();
    Side::BOTH.map(|side| {
        let of = rows.iter().filter(|row| row.0 == side);
        of.map(|(_, index, maker, reserves)| (format!("{index} {maker}"), reserves.clone())).collect()
    })
}

/// The generator's own truth in the same words.
fn truth(state: &[LiveTick]) -> Books {
    let mut rows: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for tick in state {
        let side = if tick.token_in == tick.token_zero { Side::Ask } else { Side::Bid };
        let maker = match (&tick.fee, &tick.tranche_key) {
            (Some(fee), None) => format!("fee {fee}"),
            (None, Some(tranche)) => format!("tranche {tranche}"),
            other => panic!("one of both: {other:?}"),
        };
        let symbol = format!("{}<>{}", tick.token_zero, tick.token_one);
        rows.entry(symbol).or_default().push((side, tick.tick_index, maker, spelled(tick.reserves)));
    }
    rows.into_iter().map(|(symbol, rows)| (symbol, sides(rows))).collect()
}

fn referred(books: BTreeMap<String, FinalBook>) -> Books {
    let alive = books.into_iter().map(|(symbol, book)| (symbol, [book.bids, book.asks]));
    alive.filter(|(_, sides)| sides.iter().any(|side| !side.is_empty())).collect()
}

/// Not `assert_eq`: thousands of ticks would bury the reason.
fn same(name: &str, mine: &Books, right: &Books) {
    assert_eq!(mine.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>(), "{name}");
    for (symbol, sides) in right {
        for (mine, right) in mine[symbol].iter().zip(sides) {
            let differs = mine.iter().zip(right).position(|(mine, right)| mine != right);
            let at = differs.unwrap_or(mine.len().min(right.len()));
            assert!(mine == right, "{name} {symbol}: {:?} instead of {:?} at {at}", mine.get(at), right.get(at));
        }
    }
}

/// A feed, what it told, and where names are.
struct Fed {
    feed: BlockFeed,
    directory: Arc<Directory>,
    tranches: Arc<Tranches>,
    ticks: Ticks,
    last: Option<u64>,
}

impl Fed {
    fn new() -> Self {
        let listings = Arc::new(Listings::new(Arc::default()));
        let (directory, tranches) = (Arc::clone(listings.directory()), Arc::clone(listings.tranches()));
        let feed = BlockFeed::new(listings, Arc::clone(&tranches), LegId(0));
        Self { feed, directory, tranches, ticks: Ticks::default(), last: None }
    }

    fn at(&self, block: &Block) -> At {
        let from = batch::end_of(self.last.unwrap_or(block.height.saturating_sub(1)));
        At { received_ns: 1, venue_ns: 0, from }
    }

    fn deliver(&mut self, block: &Block) {
        let mut out = Vec::new();
        self.feed.deliver(block, self.at(block), &mut out).unwrap();
        let mut of_block: Vec<_> = out.iter().filter(|event| matches!(event.body, Body::Delta(_))).collect();
        assert_eq!(of_block.len(), block.pairs.len());
        of_block.dedup_by_key(|event| event.symbol);
        assert_eq!(of_block.len(), block.pairs.len(), "one event of each");
        out.iter().for_each(|event| self.ticks.take(event));
        self.last = Some(block.height);
    }

    fn books(&self) -> Books {
        self.ticks.books(&self.directory, &self.tranches)
    }
}

fn content(name: &str) -> Option<String> {
    let Some(path) = corpus::file(name) else {
        println!("corpus absent: skipped {name} (set {} to its directory)", corpus::VARIABLE);
        return None;
    };
    let mut text = String::new();
    let file = std::fs::File::open(&path).unwrap();
    if path.extension().is_some_and(|ending| ending == "zst") {
        zstd::Decoder::new(file).unwrap().read_to_string(&mut text).unwrap();
    } else {
        (&file).read_to_string(&mut text).unwrap();
    }
    Some(text)
}

/// A book's name, then its bids and asks: keys and reserves.
type Stated<'a> = (&'a str, [&'a [(&'a str, &'a str)]; 2]);

/// A recorded or derived block, and what it comes to.
fn comes_to(name: &str, height: u64, right: Counts, books: &[Stated<'_>]) {
    let Some(text) = content(name) else { return };
    let block = decode_block(text.as_bytes()).unwrap();
    let ticks = u64::try_from(block.ticks.len()).unwrap();
    assert_eq!((block.height, Counts { events: block.events, ticks, failed: block.failed }), (height, right), "{name}");
    let mut chain = Chain::default();
    assert_eq!(chain.apply(&text).unwrap(), right, "{name}");
    let mut fed = Fed::new();
    fed.deliver(&block);
    let rows = |rows: &[(&str, &str)]| rows.iter().map(|(key, reserves)| ((*key).into(), (*reserves).into())).collect();
    let stated: Books = books.iter().map(|(symbol, sides)| ((*symbol).to_owned(), sides.map(rows))).collect();
    same(name, &fed.books(), &stated);
    same(name, &referred(chain.books()), &stated);
    // The bare results are the same block.
    let envelope: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(decode_block(envelope["result"].to_string().as_bytes()).unwrap(), block, "{name}");
}

#[test]
fn every_block_of_the_corpus_comes_to_what_is_stated() {
    let of_others = |events, failed| Counts { events, ticks: 0, failed };
    comes_to("cometbft_block_results/tm034_osmosis_10499831.json.zst", 10_499_831, of_others(OSMOSIS, 0), &[]);
    comes_to("cometbft_block_results/tm034_gaia_fixtures_4555980.json.zst", 4_555_980, of_others(101, 0), &[]);
    comes_to("cometbft_block_results/tm034_sei_failed_txs_54810790.json.zst", 54_810_790, of_others(237, 2), &[]);
    comes_to("cometbft_block_results/cmt038_dydx_12791634.json.zst", 12_791_634, of_others(4, 0), &[]);
    comes_to(
        "neutron_dex/DERIVED_block_results_v037_duplicate_fee.json",
        1_001,
        Counts { events: 2, ticks: 2, failed: 0 },
        &[("TokenA<>TokenB", [&[("-23027 fee 1", "10000000"), ("-23027 tranche tk-0", "10000000")], &[]])],
    );
    let purge = Counts { events: 1, ticks: 1, failed: 0 };
    comes_to("neutron_dex/DERIVED_block_results_v038_beginblock_purge.json", 1_002, purge, &[]);
    comes_to(
        "neutron_dex/DERIVED_block_results_v038_swap.json",
        1_001,
        Counts { events: 6, ticks: 6, failed: 0 },
        &[("TokenA<>TokenB", [&[("1 fee 1", "1000899.91000899910008999100089991")], &[("1 fee 1", "9000000")]])],
    );
}

#[test]
fn real_blocks_in_base64_have_the_same_values_as_their_text() {
    // Nothing of the corpus in base64 is of this exchange, so an event of another module takes its name.
    let Some(text) = content("cometbft_block_results/tm034_osmosis_10499831.json.zst") else { return };
    let named = text.replace(r#""type": "token_swapped""#, r#""type": "TickUpdate""#);
    assert_ne!(text, named);
    let block = decode_block(named.as_bytes()).unwrap();
    assert_eq!((block.events, block.ticks.len()), (OSMOSIS, 0), "module gamm, read out of base64");
    // `module` in base64 is "bW9kdWxl", `gamm` is "Z2FtbQ==" and `dex` "ZGV4".
    let error = decode_block(named.replace("Z2FtbQ==", "ZGV4").as_bytes()).unwrap_err();
    assert!(error.to_string().ends_with("TokenZero is missing"), "{error}");
}

fn chain(dialect: Dialect, seed: u64, blocks: usize) -> (Vec<GeneratedBatch>, DexGenerator) {
    let options = DexOptions { seed, dialect, ticks_per_pair: 80, events_per_block: 40, ..DexOptions::default() };
    let mut generator = DexGenerator::new(options);
    (generator.by_ref().take(blocks).collect(), generator)
}

fn text(batch: &GeneratedBatch) -> &str {
    std::str::from_utf8(&batch.content).unwrap()
}

#[test]
fn decoder_feed_reference_and_generator_agree_on_made_up_chains_in_every_dialect() {
    for seed in 0..4 {
        let mut decoded: Vec<Vec<Block>> = Vec::new();
        for dialect in DIALECTS {
            let name = format!("seed {seed}, {dialect:?}");
            let (batches, generator) = chain(dialect, seed, 120);
            let (mut fed, mut right) = (Fed::new(), Chain::default());
            let mut blocks = Vec::new();
            for batch in &batches {
                let block = decode_block(&batch.content).unwrap();
                let ticks = u64::try_from(block.ticks.len()).unwrap();
                let counts = Counts { events: block.events, ticks, failed: block.failed };
                assert_eq!(right.apply(text(batch)).unwrap(), counts, "{name}");
                assert_eq!(block.height, batch.name.height, "{name}");
                fed.deliver(&block);
                blocks.push(block);
            }
            same(&name, &fed.books(), &referred(right.books()));
            same(&name, &fed.books(), &truth(&generator.state()));
            // What is dead is forgotten, and nothing that lives.
            fed.tranches.forget_dead(fed.last.unwrap());
            same(&name, &fed.books(), &truth(&generator.state()));
            let orders = generator.state().iter().filter(|tick| tick.tranche_key.is_some()).count();
            assert_eq!(fed.tranches.len(), orders, "{name}");
            decoded.push(blocks);
        }
        let failed: u64 = decoded[0].iter().map(|block| block.failed).sum();
        assert!(failed > 10, "{failed}");
        assert!(decoded.iter().all(|blocks| *blocks == decoded[0]), "seed {seed}: dialects differ");
    }
}

#[test]
fn a_snapshot_is_the_state_and_blocks_go_on_over_it() {
    let (batches, mut generator) = chain(Dialect::Mixed, 9, 100);
    let snapshot = generator.snapshot();
    let later: Vec<_> = generator.by_ref().take(40).collect();
    let mut fed = Fed::new();
    // A few blocks, of which the snapshot then replaces what they came to.
    batches.iter().take(3).for_each(|batch| fed.deliver(&decode_block(&batch.content).unwrap()));
    let whole = decode_snapshot(&snapshot.content).unwrap();
    assert_eq!((whole.height, snapshot.name.height), (batches[99].name.height, batches[99].name.height));
    let mut out = Vec::new();
    fed.feed.snapshot(&whole, fed.at(&whole), &mut out).unwrap();
    out.iter().for_each(|event| fed.ticks.take(event));
    fed.last = Some(whole.height);
    later.iter().for_each(|batch| fed.deliver(&decode_block(&batch.content).unwrap()));
    same("over a snapshot", &fed.books(), &truth(&generator.state()));
}

/// A capture of these batches, as answers of a node.
fn captured(batches: &[GeneratedBatch]) -> NamedTempFile {
    let frame = |batch: &GeneratedBatch| RawFrame {
        ts_ns: batch.block_time_ns,
        kind: RawKind::Http,
        conn: "node".into(),
        url: Some(format!("http://node/block_results?height={}", batch.name.height).into()),
        raw: RawPayload::Text(text(batch).to_owned()),
    };
    write(batches.iter().map(frame).collect())
}

fn python(path: &Path) -> serde_json::Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference/reconstruct.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(["--venue", "neutron_dex", "--json"]).arg(path);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_captured_chain_ends_as_both_references_say_at_any_number_of_workers() {
    let (batches, generator) = chain(Dialect::Mixed, 5, 150);
    let file = captured(&batches);
    let right = reference::rebuild("neutron_dex", file.path()).unwrap();
    let as_json = serde_json::to_value(&right).unwrap();
    let other = python(file.path());
    assert_eq!(as_json["stats"], other["stats"]);
    assert!(as_json["books"] == other["books"], "the references differ");
    let listings = Arc::new(Listings::new(Arc::default()));
    let (directory, tranches) = (Arc::clone(listings.directory()), Arc::clone(listings.tranches()));
    let mut ticks = Ticks::default();
    let mut lines = Vec::new();
    let admitted = ReplayOptions { admitted: true, ..options(Venue::NeutronDex, 1) };
    let captures = MergedCaptures::open(&[file.path().to_owned()]).unwrap();
    let (summary, _) = replay(captures, &admitted, listings, Kept::default(), &mut lines, &mut |step| {
        step.admitted.iter().for_each(|changes| ticks.admitted(changes));
    })
    .unwrap();
    let books = ticks.books(&directory, &tranches);
    same("replayed", &books, &referred(right.books.clone()));
    same("replayed", &books, &truth(&generator.state()));
    let (lanes, feed) = (summary.lanes, feed_counts(&summary));
    let applied: u64 = right.books.values().map(|book| book.applied).sum();
    assert_eq!((lanes.applied, lanes.gaps, lanes.held, lanes.regressions, lanes.duplicates), (applied, 0, 0, 0, 0));
    assert_eq!((summary.dead_letters, feed.undecodable, feed.missing, feed.passed), (0, 0, 0, 0));
    for workers in [2, 4] {
        let (same, _) = run(file.path(), &options(Venue::NeutronDex, workers));
        assert!(same == lines, "{workers} workers differ");
    }
}

#[test]
fn blocks_that_come_again_or_late_in_a_capture_change_nothing() {
    let (mut batches, _) = chain(Dialect::Comet038, 6, 60);
    let (clean, _) = run(captured(&batches).path(), &options(Venue::NeutronDex, 1));
    // Each third block comes once more, two blocks later.
    let again: Vec<_> = batches
        .windows(3)
        .step_by(3)
        .map(|run| GeneratedBatch { block_time_ns: run[2].block_time_ns, ..run[0].clone() })
        .collect();
    let repeated = u64::try_from(again.len()).unwrap();
    batches.extend(again);
    let (lines, summary) = run(captured(&batches).path(), &options(Venue::NeutronDex, 1));
    assert_eq!(feed_counts(&summary).passed, repeated);
    assert!(lines == clean);
}

#[test]
fn over_a_block_that_cannot_be_read_nothing_goes_on_until_it_came() {
    let options_of = DexOptions { omit_share: 0, events_per_block: 40, ..DexOptions::default() };
    let mut batches: Vec<_> = DexGenerator::new(options_of).take(30).collect();
    let mut torn = batches[10].clone();
    torn.content.truncate(torn.content.len() / 2);
    batches[10] = torn;
    let (lines, summary) = run(captured(&batches).path(), &options(Venue::NeutronDex, 1));
    assert_eq!((summary.dead_letters, feed_counts(&summary).missing), (1, 19));
    let last = std::str::from_utf8(&lines).unwrap().lines().rev().find(|line| line.contains("\"status\"")).unwrap();
    assert!(last.contains("GAPPED"), "{last}");
}
