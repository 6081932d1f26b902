//! temp
use connectors::{decoder::Decoder, venue_feed::listings::Listings, capture::*, raw::*};
use market::*;
use std::{collections::*, sync::Arc};
#[test]
fn verify() {
    for (venue, file) in [(Venue::Coinbase, "coinbase/coinbase_2021-04"), (Venue::Bitfinex, "bitfinex/bitfinex_2021-04")] {
        let text = std::process::Command::new("zstdcat").arg(format!("/work/shared/corpus/{file}.frames.jsonl.zst")).output().unwrap().stdout;
        let text = String::from_utf8(text).unwrap();
        let mut decoder = Decoder::new(Arc::new(Listings::new(Arc::default())));
        let mut out = Vec::new();
        let mut errors = 0;
        for (at, line) in text.lines().enumerate() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let kind = match value["kind"].as_str().unwrap() { "open" => RawKind::Open, "ws" => RawKind::Ws, "send" => RawKind::Send, _ => RawKind::Http };
            let raw = RawPayload::Text(value["raw"].as_str().unwrap_or("").to_owned());
            let frame = RawFrame { ts_ns: value["ts_ns"].as_u64().unwrap(), kind, conn: value["conn"].as_str().unwrap().into(), url: None, raw };
            if let Err(e) = decoder.decode(venue, &frame, at as u64 + 1, &mut out) { errors += 1; println!("{e}"); }
        }
        let mut kinds = BTreeMap::new();
        let mut books: HashMap<SymbolId, [BTreeMap<i128, String>; 2]> = HashMap::new();
        let (mut crossed, mut unknown) = (0, 0);
        let mut finest: HashMap<SymbolId, Scale> = HashMap::new();
        for event in &out { if let Body::Snapshot(Snapshot{scale,..}) | Body::Delta(Delta{scale,..}) = &event.body { finest.insert(event.symbol, *scale); } }
        for event in &out {
            let name = format!("{:?}", event.body); let name = name.split(['(', ' ', '{']).next().unwrap().to_owned();
            *kinds.entry(name).or_insert(0) += 1;
            let (snapshot, scale, ticks) = match &event.body { Body::Snapshot(s) => (true, s.scale, &s.ticks), Body::Delta(d) => (false, d.scale, &d.changes), _ => continue };
            let fine = Scale { price: -12, quantity: -12 };
            let book = books.entry(event.symbol).or_default();
            if snapshot { *book = Default::default(); }
            for t in ticks {
                let p = i128::from(scale.price_in(fine, t.key.tick_index).unwrap());
                let side = &mut book[usize::from(t.side == Side::Ask)];
                if t.reserves.is_zero() { if side.remove(&p).is_none() { unknown += 1; } } else { side.insert(p, t.reserves.to_string()); }
            }
            if let (Some((b, _)), Some((a, _))) = (book[0].last_key_value(), book[1].first_key_value()) { if b >= a { crossed += 1; } }
        }
        println!("{venue}: {kinds:?} errors {errors} crossed {crossed} unknown deletes {unknown}");
        for (_, c) in decoder.counts() { println!("{c:?}"); }
        println!("reconnects {:?} repairs {:?}", decoder.reconnects(), decoder.repairs());
        let mut sizes: Vec<_> = books.values().map(|b| (b[0].len(), b[1].len())).collect(); sizes.sort(); println!("{sizes:?}");
    }
}
