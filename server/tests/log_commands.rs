//! `sprag dlq`, `gaps` and `why` as an operator types them, against the real engine.
//!
//! Never: an answer that is only looked at by its exit code.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use connectors::clickhouse::{
    BatchLog, InProcess, StoreAddress,
    batch_log::{DeadHead, DeadLetter, DeadState, GapState, LoggedBatch, dead_letter_id},
    locate, schema, serve_in_process,
};
use market::{
    Venue, Version,
    batch::{BatchId, BatchKind, BatchName, Hole, end_of, place_of},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, process::Command};

const STREAM: &str = "neutron-1";
const NS: u64 = 1_700_000_000_345_678_901;
const BLOCK: &str = r#"{"height":"7","txs_results":[{"code":0,"events":[{"type":"message","attributes":[]},
    {"type":"TickUpdate","attributes":[{"key":"TokenZero","value":"A"},{"key":"TokenOne","value":"B"}]}]}],
    "finalize_block_events":[]}"#;

struct Bench {
    address: StoreAddress,
    log: BatchLog,
    _engine: InProcess,
    _directory: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = serve_in_process(&locate(None).unwrap(), &directory.path().join("engine")).await.unwrap();
        let address = StoreAddress::at(engine.url());
        schema::apply(&address).await.unwrap();
        let log = BatchLog::new(address.client(), Venue::NeutronDex, STREAM);
        Self { address, log, _engine: engine, _directory: directory }
    }

    /// Runs a command; its exit code, its answer, and what it said on standard error.
    async fn sprag(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let url = format!("store.url={}", self.address.url);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sprag"));
        command.args(args).args(["--set", &url]).env("USER", "ann").env_remove("CLICKHOUSE_URL");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    async fn says(&self, args: &[&str]) -> String {
        let (code, answer, error) = self.sprag(args).await;
        assert_eq!(code, Some(0), "{args:?}: {error}");
        answer
    }

    async fn refuses(&self, args: &[&str], words: &str) {
        let (code, answer, error) = self.sprag(args).await;
        assert_eq!((code, answer.as_str()), (Some(2), ""), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }

    async fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.says(args).await).unwrap()
    }

    async fn updates(&self, rows: &[&str]) {
        let columns = "venue, symbol, asset_0, asset_1, asset_in, tick_index, fee, tranche_key, reserves, reserves_zero, \
                       version, whole, price_exponent, quantity_exponent, updated_at, raw_id";
        let sql = format!("INSERT INTO tick_updates ({columns}) VALUES {}", rows.join(", "));
        self.address.client().query_raw(&sql).execute().await.unwrap();
    }
}

fn letter(payload: &[u8]) -> DeadLetter {
    let attributes = BTreeMap::from([("kind".to_owned(), "block".to_owned())]);
    let head = DeadHead {
        id: dead_letter_id(Venue::NeutronDex, STREAM, &attributes, payload),
        venue: "neutron_dex".into(),
        stream: STREAM.into(),
        height: 7,
        message_id: "m-1".into(),
        attributes,
        reason: "the digest is another".into(),
        attempts: 3,
        state: DeadState::Dead,
        published_ns: NS,
        received_ns: NS,
        changed_ns: NS,
    };
    DeadLetter { head, payload: payload.to_vec() }
}

async fn gaps(bench: &Bench) {
    assert_eq!(bench.says(&["gaps", "list"]).await, "Nothing is missing.\n");
    bench.log.open_gap(Hole { after: 10, through: 12 }, NS).await.unwrap();
    let listed = bench.says(&["gaps", "list"]).await;
    assert!(
        listed.contains("neutron_dex/neutron-1  10     12       open   2023-11-14T22:13:20.345678901Z"),
        "{listed}"
    );
    bench.refuses(&["gaps", "accept", "10", "13", "--note", "x"], "no gap after 10 through 13 is on record").await;
    bench.refuses(&["gaps", "accept", "10", "12"], "--note").await;
    bench.refuses(&["gaps", "accept", "10", "12", "--note", " "], "must not be empty").await;
    let told = bench.says(&["gaps", "accept", "10", "12", "--note", "chain halt"]).await;
    assert!(told.contains("the loss after 10 through 12 is accepted by ann"), "{told}");
    let gap = bench.log.gaps().await.unwrap().remove(0);
    assert_eq!((gap.state, &*gap.operator, &*gap.note), (GapState::Accepted, "ann", "chain halt"));
    bench.refuses(&["gaps", "accept", "10", "12", "--note", "x"], "is open in neutron-1: it is accepted").await;
    let json = bench.json(&["gaps", "list", "--format", "json"]).await;
    assert_eq!((&json[0]["state"], &json[0]["through"]), (&"accepted".into(), &12.into()));
}

async fn letters(bench: &Bench) {
    assert_eq!(bench.says(&["dlq", "list"]).await, "No dead letters.\n");
    // So many that two ids begin with the same digit.
    let letters: Vec<_> = (0..17_u8).map(|byte| letter(&[byte, b'\n'])).collect();
    for letter in &letters {
        bench.log.bury(letter).await.unwrap();
    }
    assert_eq!(bench.says(&["dlq", "list"]).await.lines().count(), 18);
    let id = &*letters[0].head.id;
    let shown = bench.says(&["dlq", "show", &id[..12]]).await;
    assert!(shown.contains("the digest is another") && shown.contains("2 bytes") && shown.contains("00 0a"), "{shown}");
    assert_eq!(bench.says(&["dlq", "show", id, "--payload", "-"]).await, "\0\n");
    let digit = |letter: &DeadLetter| letter.head.id.as_bytes()[0];
    let twice = letters.iter().find(|one| letters.iter().filter(|other| digit(one) == digit(other)).count() > 1);
    let prefix = &twice.unwrap().head.id[..1];
    bench.refuses(&["dlq", "show", prefix], &format!("several letters begin with {prefix}:")).await;
    bench.refuses(&["dlq", "replay", id, "xyz"], "no dead letter begins with \"xyz\"").await;
    assert_eq!(bench.json(&["dlq", "list", "--state", "replay", "--format", "json"]).await, Value::Array(Vec::new()));
    let told = bench.says(&["dlq", "replay", &id[..12]]).await;
    assert!(told.contains("height 7: will be tried again"), "{told}");
    let wanted = bench.log.dead(Some(DeadState::Replay)).await.unwrap();
    assert_eq!(wanted.iter().map(|head| &*head.id).collect::<Vec<_>>(), [id]);
    assert_eq!(bench.says(&["dlq", "replay", "--all"]).await.lines().count(), 16);
    assert_eq!(bench.log.dead(Some(DeadState::Replay)).await.unwrap().len(), 17);
}

async fn whys(bench: &Bench) {
    let id = BatchId(Sha256::digest(BLOCK).into());
    let batch = LoggedBatch {
        name: BatchName { height: 7, previous: 6, kind: BatchKind::Block, id },
        content: BLOCK.into(),
        parts: 1,
        message_id: "m-1".into(),
        block_time_ns: NS,
        published_ns: NS,
        received_ns: NS,
    };
    bench.log.insert(&batch).await.unwrap();
    let row = |height: u64, ordinal: u64, fee: u32, reserves: u64, whole: u8, raw_id: &str| {
        let place = if whole == 1 { end_of(height) } else { place_of(height, ordinal).unwrap() };
        let version = Version::new(1, place).to_u128();
        format!(
            "('neutron_dex', 'A<>B', 'A', 'B', 'A', -5, {fee}, '', toUInt256('{reserves}000000000000000000000000000'), \
             {}, toUInt128('{version}'), {whole}, -128, -27, toDateTime64('2023-11-14 22:13:20.345678901', 9, 'UTC'), '{raw_id}')",
            u8::from(reserves == 0)
        )
    };
    let rows = [
        row(6, 0, 1, 4, 0, "neutron-1/6/0"),
        row(7, 1, 1, 9, 0, "neutron-1/7/1"),
        row(7, 0, 1, 9, 1, ""),
        row(7, 0, 5, 2, 1, ""),
        row(8, 3, 30, 1, 0, "neutron-1/8/3"),
    ];
    bench.updates(&rows.each_ref().map(String::as_str)).await;
    bench.refuses(&["why", "neutron_dex/C<>D"], "the store has nothing of neutron_dex/C<>D").await;
    bench.refuses(&["why", "neutron_dex/A<>B", "ask:4"], "never had a tick at ask:4").await;
    bench.refuses(&["why", "neutron_dex/A<>B", "ask:-5"], "\n  ask:-5:fee=1\n  ask:-5:fee=5\n  ask:-5:fee=30").await;
    let answer = bench.says(&["why", "neutron_dex/A<>B"]).await;
    for words in ["(epoch 1, height 8, ordinal 3)", "neutron-1/8/3; the log does not have block 8", "3 asks, 0 bids"] {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    let answer = bench.says(&["why", "neutron_dex/A<>B", "ask:-5:fee=1"]).await;
    for words in [
        "tick      ask:-5:fee=1, price 1.0001^-5",
        "now       9.000000000000000000000000000 since",
        "event     block 7, Tx 0, event 1 in it, 1 in the block",
        "\"type\": \"TickUpdate\"",
        "whole book",
        "neutron-1/6/0",
        "2023-11-14T22:13:20.345678901Z",
    ] {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    let answer = bench.json(&["why", "neutron_dex/A<>B", "ask:-5:fee=1", "--limit", "2", "--format", "json"]).await;
    assert_eq!(answer["origin"]["source"]["json"]["type"], "TickUpdate");
    assert_eq!(answer["history"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&answer["history"][0]["whole"], &answer["history"][1]["raw_id"]),
        (&true.into(), &"neutron-1/7/1".into())
    );
    let answer = bench.says(&["why", "neutron_dex/A<>B", "ask:-5:fee=5"]).await;
    assert!(answer.contains("whole books alone"), "{answer}");
}

#[test]
fn an_operator_sees_what_is_wrong_and_can_act() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new().await;
        gaps(&bench).await;
        letters(&bench).await;
        whys(&bench).await;
    });
}
