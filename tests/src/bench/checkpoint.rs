//! The checkpoint measured: its codec against others for the same records, and a whole checkpoint of a hub.
//!
//! The ways take turns in one run, so that all of them see the same machine; what is compared is processor time, and the
//! ratio to a plain copy of the same bytes. Buffers are used again, as they are in the server, so no way pays for fresh
//! memory.
//!
//! Never: a judgement of a time; only results are compared, and they must be the same.

use super::report::Spread;
use anyhow::{Context, Result, ensure};
use cpu_time::ThreadTime;
use dataflow::{
    clock::CutClock,
    cut::{BookCut, InstrumentCut, LaneCut},
    sink::SinkMessage,
};
use market::{Directory, Level, Scale, SymbolId, U256, Venue, Version};
use serde::{Deserialize, Serialize};
use server::{
    checkpoint::{
        self, CheckpointTaker, CheckpointView, TakerConfig,
        codec::{self, LevelRecord, Record},
    },
    hub::{Hub, HubConfig},
};
use std::{
    fmt::Write,
    hint::black_box,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Time between two calls on the tape: the default length of a cut.
const CUT: Duration = Duration::from_millis(4);

/// A checkpoint that does not get on for so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointOptions {
    /// Instruments.
    pub instruments: u32,
    /// Levels of each, both sides together.
    pub levels: u32,
    /// Rounds of each way.
    pub rounds: usize,
}

/// A level as the other codecs see it: the same fields in the same layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable, Serialize, Deserialize)]
struct Plain {
    tick_index: i64,
    quantity: [u64; 4],
}

/// A way's figures.
#[derive(Clone, Debug)]
struct Way {
    name: &'static str,
    /// Processor nanoseconds per record, round by round.
    encode: Vec<f64>,
    decode: Vec<f64>,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct CheckpointReport {
    options: CheckpointOptions,
    ways: Vec<Way>,
    checksum: Vec<f64>,
    whole: Whole,
}

/// A whole checkpoint, taken step by step and read again.
#[derive(Clone, Debug, Default)]
struct Whole {
    bytes: u64,
    calls: usize,
    /// Processor microseconds of the tape per call.
    call_us: Vec<f64>,
    /// Wall milliseconds of a last checkpoint, durable.
    finish_ms: Vec<f64>,
    /// Processor milliseconds of reading it.
    read_ms: Vec<f64>,
}

/// Measures.
///
/// # Errors
/// A way that gives other records than it was given, or a checkpoint that fails.
pub fn run(options: CheckpointOptions) -> Result<CheckpointReport> {
    ensure!(options.instruments > 0 && options.levels > 1 && options.rounds > 0, "nothing to measure");
    let records = records(options);
    let mut ways =
        ["copy", "abomonation", "bytemuck", "bincode"].map(|name| Way { name, encode: Vec::new(), decode: Vec::new() });
    let mut bench = Bench::new(&records)?;
    let mut checksum = Vec::new();
    // The first round warms up.
    for round in 0..=options.rounds {
        for way in &mut ways {
            let (encode, decode) = bench.turn(way.name)?;
            if round > 0 {
                way.encode.push(encode);
                way.decode.push(decode);
            }
        }
        checksum.push(bench.per_record(|bench| {
            black_box(crc32fast::hash(&bench.bytes));
            Ok(())
        })?);
    }
    checksum.remove(0);
    let whole = whole(options)?;
    Ok(CheckpointReport { options, ways: ways.to_vec(), checksum, whole })
}

fn records(options: CheckpointOptions) -> Vec<Plain> {
    let count = u64::from(options.instruments) * u64::from(options.levels);
    let quantity = |at: u64| [at.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, at & 0xFFFF, 0, 0];
    (0..count).map(|at| Plain { tick_index: i64::try_from(at).unwrap_or(0), quantity: quantity(at) }).collect()
}

/// The same records in every form, and buffers that are used again.
struct Bench<'a> {
    plain: &'a [Plain],
    levels: Vec<LevelRecord>,
    bytes: Vec<u8>,
    encoded: Vec<u8>,
    copied: Vec<u8>,
    plain_back: Vec<Plain>,
    levels_back: Vec<LevelRecord>,
}

impl<'a> Bench<'a> {
    fn new(plain: &'a [Plain]) -> Result<Self> {
        let record = |plain: &Plain| LevelRecord { tick_index: plain.tick_index, quantity: plain.quantity };
        let levels: Vec<_> = plain.iter().map(record).collect();
        let mut bytes = Vec::new();
        codec::encode(&levels, &mut bytes)?;
        let encoded = Vec::with_capacity(bytes.len() * 2);
        let (copied, plain_back, levels_back) = (bytes.clone(), plain.to_vec(), levels.clone());
        Ok(Self { plain, levels, bytes, encoded, copied, plain_back, levels_back })
    }

    /// Processor nanoseconds per record of encoding and of decoding.
    fn turn(&mut self, name: &str) -> Result<(f64, f64)> {
        self.encoded.clear();
        let encode = self.per_record(|bench| bench.encode(name))?;
        // bincode's bytes are its own; all other ways make the file's.
        ensure!(name == "bincode" || self.encoded == self.bytes, "{name} makes other bytes");
        let decode = self.per_record(|bench| bench.decode(name))?;
        let same = match name {
            "copy" => self.copied == self.bytes,
            "abomonation" => self.levels_back == self.levels,
            _ => self.plain_back == self.plain,
        };
        ensure!(same, "{name} gives other records back");
        Ok((encode, decode))
    }

    fn per_record(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<f64> {
        let begin = ThreadTime::now();
        work(self)?;
        Ok(begin.elapsed().as_secs_f64() * 1e9 / float(self.plain.len()))
    }

    fn encode(&mut self, name: &str) -> Result<()> {
        match name {
            "copy" => self.encoded.extend_from_slice(black_box(&self.bytes)),
            "abomonation" => codec::encode(black_box(&self.levels), &mut self.encoded)?,
            "bytemuck" => self.encoded.extend_from_slice(bytemuck::cast_slice(black_box(self.plain))),
            _ => {
                for record in black_box(self.plain) {
                    bincode::serialize_into(&mut self.encoded, record)?;
                }
            }
        }
        black_box(&self.encoded);
        Ok(())
    }

    /// Records are taken one by one into a vector, as the server does; the plain copy takes the bytes at once.
    fn decode(&mut self, name: &str) -> Result<()> {
        match name {
            "copy" => {
                self.copied.clear();
                self.copied.extend_from_slice(black_box(&self.encoded));
            }
            "abomonation" => {
                self.levels_back.clear();
                self.levels_back.extend(codec::decode::<LevelRecord>(black_box(&mut self.encoded)));
            }
            "bytemuck" => {
                self.plain_back.clear();
                let records = black_box(&self.encoded).chunks_exact(LevelRecord::BYTES);
                self.plain_back.extend(records.map(bytemuck::pod_read_unaligned::<Plain>));
            }
            _ => {
                self.plain_back.clear();
                let mut rest = black_box(self.encoded.as_slice());
                while !rest.is_empty() {
                    self.plain_back.push(bincode::deserialize_from(&mut rest)?);
                }
            }
        }
        black_box((&self.plain_back, &self.levels_back, &self.copied));
        Ok(())
    }
}

/// Takes checkpoints of a hub as the tape does, and reads them; the first round warms up.
fn whole(options: CheckpointOptions) -> Result<Whole> {
    let dir = tempfile::tempdir()?;
    let directory = Arc::new(Directory::default());
    let mut hub = hub(options, &directory)?;
    let mut cut = 1;
    let mut whole = Whole::default();
    for round in 0..=options.rounds {
        let view = Arc::new(CheckpointView::default());
        let config = TakerConfig {
            data_dir: dir.path(),
            directory: Arc::clone(&directory),
            every: Duration::ZERO,
            block: 1,
            restored: 0,
            view: Arc::clone(&view),
        };
        let mut taker = CheckpointTaker::start(config)?;
        let calls = calls(&mut taker, &mut hub, &mut cut, &view)?;
        let begin = Instant::now();
        taker.finish(&hub)?;
        let finish_ms = begin.elapsed().as_secs_f64() * 1e3;
        let begin = ThreadTime::now();
        let read = checkpoint::read::read(&checkpoint::path(dir.path()))?.context("no checkpoint")?;
        let read_ms = begin.elapsed().as_secs_f64() * 1e3;
        ensure!(read.instruments.len() == usize::try_from(options.instruments)?, "instruments are missing");
        if round > 0 {
            whole.calls = calls.len();
            whole.call_us.extend(calls);
            whole.finish_ms.push(finish_ms);
            whole.read_ms.push(read_ms);
        }
    }
    whole.bytes = std::fs::metadata(checkpoint::path(dir.path()))?.len();
    Ok(whole)
}

/// Calls the taker once a cut until a checkpoint is there; what each call that copied took, processor microseconds.
fn calls(taker: &mut CheckpointTaker, hub: &mut Hub, cut: &mut u64, view: &CheckpointView) -> Result<Vec<f64>> {
    let begin = Instant::now();
    let mut calls = Vec::new();
    let mut under_way = true;
    while under_way {
        ensure!(begin.elapsed() < PATIENCE, "the checkpoint does not get on");
        let call = ThreadTime::now();
        let copied = taker.step(hub);
        let us = call.elapsed().as_secs_f64() * 1e6;
        // A new round begins at once; its first piece is not one of this checkpoint.
        under_way = view.counts().iter().all(|(_, count)| *count == 0);
        if copied && under_way {
            calls.push(us);
        }
        *cut += 1;
        hub.take(SinkMessage::Closed { worker: 0, before: *cut });
        while hub.step().is_some() {}
        thread::sleep(CUT);
    }
    Ok(calls)
}

fn hub(options: CheckpointOptions, directory: &Directory) -> Result<Hub> {
    let clock = CutClock { origin_ns: 0, cut_ns: u64::try_from(CUT.as_nanos())? };
    let mut hub = Hub::new(HubConfig { workers: 1, clock, cuts_per_frame: 10, idle_frames: false });
    let levels = i64::from(options.levels / 2);
    let side = |best: i64, step: i64| -> Vec<Level> {
        (0..levels)
            .map(|at| Level { tick_index: best + at * step, quantity: U256::from(at.unsigned_abs() + 1) })
            .collect()
    };
    let mut instruments = Vec::new();
    for at in 0..options.instruments {
        let symbol = format!("SYM{at}USDT");
        directory.intern(Venue::BinanceSpot, &symbol, &format!("SYM{at}"), "USDT")?;
        instruments.push(InstrumentCut {
            symbol: SymbolId(at),
            version: Some(Version::new(1, u64::from(at) + 1)),
            received_ns: 1,
            scale: Scale { price: -2, quantity: -8 },
            book: BookCut::Snapshot { bids: side(99_999, -1), asks: side(100_001, 1), horizon: [None; 2] },
            quote: None,
            feed: None,
            trades: Vec::new(),
            admitted: Vec::new(),
            admitted_trades: Vec::new(),
        });
    }
    hub.take(SinkMessage::Cut(LaneCut { cut: 0, instruments, ..LaneCut::default() }));
    hub.take(SinkMessage::Closed { worker: 0, before: 1 });
    while hub.step().is_some() {}
    Ok(hub)
}

impl CheckpointReport {
    /// Everything as text.
    ///
    /// # Errors
    /// None that a text in memory can have.
    pub fn text(&self) -> Result<String> {
        let CheckpointOptions { instruments, levels, rounds } = self.options;
        let mut out = String::new();
        writeln!(out, "{instruments} instruments of {levels} levels, {rounds} rounds; CPU ns per level of 40 bytes")?;
        writeln!(out, "{:<12} {:>22} {:>7} {:>22} {:>7}", "", "encode", "ratio", "decode", "ratio")?;
        let medians = |way: &Way| (Spread::of(way.encode.clone()), Spread::of(way.decode.clone()));
        let (base_encode, base_decode) = self.ways.first().map(medians).context("no way was measured")?;
        for way in &self.ways {
            let (encode, decode) = medians(way);
            let ratio = |spread: Spread, base: Spread| spread.median / base.median;
            writeln!(
                out,
                "{:<12} {:>22} {:>7.2} {:>22} {:>7.2}",
                way.name,
                fine(encode),
                ratio(encode, base_encode),
                fine(decode),
                ratio(decode, base_decode)
            )?;
        }
        writeln!(out, "{:<12} {:>22} {:>7.2}", "CRC-32", fine(Spread::of(self.checksum.clone())), {
            Spread::of(self.checksum.clone()).median / base_encode.median
        })?;
        let Whole { bytes, calls, call_us, finish_ms, read_ms } = &self.whole;
        writeln!(out, "a file of {bytes} bytes in {calls} calls of the tape")?;
        writeln!(out, "CPU us of a call     {}, 99 % within {:.0}", fine(Spread::of(call_us.clone())), p99(call_us))?;
        writeln!(out, "wall ms of the last  {}", fine(Spread::of(finish_ms.clone())))?;
        write!(out, "CPU ms of reading    {}", fine(Spread::of(read_ms.clone())))?;
        Ok(out)
    }
}

/// What 99 in 100 values do not exceed.
fn p99(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_mul(99) / 100).copied().unwrap_or_default()
}

fn fine(spread: Spread) -> String {
    format!("{:.2} ({:.2} to {:.2})", spread.median, spread.min, spread.max)
}

/// Exact for what is counted here.
fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_back_what_it_was_given() {
        let report = run(CheckpointOptions { instruments: 40, levels: 30, rounds: 2 }).unwrap();
        assert_eq!(size_of::<Plain>(), LevelRecord::BYTES);
        assert!(report.whole.calls > 0 && report.whole.bytes > 40 * 30 * 40, "{report:?}");
        assert!(report.text().unwrap().contains("bincode"));
    }
}
