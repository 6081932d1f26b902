//! How a made-up block is told in each dialect.
//!
//! Never: a number that another part of the project spelled.

use super::{Dialect, Happening, LiveTick, Maker, Pair, Told, Transaction};
use base64::{Engine, prelude::BASE64_STANDARD};
use market::U256;
use std::fmt::Write;

/// What an attribute costs beside its name and value.
const ATTRIBUTE_BYTES: usize = 34;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Begin,
    Transaction,
    End,
}

/// Writes one block.
pub(super) struct Writer<'a> {
    dialect: Dialect,
    pairs: &'a [Pair],
    out: String,
}

impl<'a> Writer<'a> {
    pub(super) fn new(dialect: Dialect, pairs: &'a [Pair], bytes: usize) -> Self {
        Self { dialect, pairs, out: String::with_capacity(bytes + bytes / 2) }
    }

    fn say(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(super) fn block(mut self, height: u64, told: &Told) -> String {
        self.say(r#"{"jsonrpc":"2.0","id":-1,"result":{"height":""#);
        self.say(&height.to_string());
        self.say(r#"","txs_results":"#);
        if told.transactions.is_empty() {
            self.say("null");
        } else {
            self.say("[");
            self.listed(&told.transactions, Self::transaction);
            self.say("]");
        }
        if self.dialect == Dialect::Comet038 {
            self.say(r#","finalize_block_events":["#);
            self.events(&told.begin, Place::Begin);
            if !told.begin.is_empty() && !told.end.is_empty() {
                self.say(",");
            }
            self.events(&told.end, Place::End);
            self.say(r#"],"validator_updates":null,"consensus_param_updates":null,"app_hash":""}}"#);
        } else {
            self.say(r#","begin_block_events":["#);
            self.events(&told.begin, Place::Begin);
            self.say(r#"],"end_block_events":["#);
            self.events(&told.end, Place::End);
            self.say(r#"],"validator_updates":null,"consensus_param_updates":null}}"#);
        }
        self.out
    }

    fn listed<T>(&mut self, all: &[T], one: impl Fn(&mut Self, &T)) {
        for (at, item) in all.iter().enumerate() {
            if at > 0 {
                self.say(",");
            }
            one(self, item);
        }
    }

    fn events(&mut self, happenings: &[Happening], place: Place) {
        self.listed(happenings, |writer, happening| writer.event(happening, place));
    }

    fn transaction(&mut self, transaction: &Transaction) {
        let (code, space) = if transaction.failed { ("5", "dex") } else { ("0", "") };
        self.say(&format!(
            r#"{{"code":{code},"data":"","log":"","info":"","gas_wanted":"0","gas_used":"0","events":["#
        ));
        self.events(&transaction.happenings, Place::Transaction);
        self.say(&format!(r#"],"codespace":"{space}"}}"#));
    }

    fn event(&mut self, happening: &Happening, place: Place) {
        let (kind, mut attributes) = attributes(happening, self.pairs, self.dialect);
        if self.dialect == Dialect::Comet038 {
            attributes.push(match place {
                Place::Begin => ("mode", "BeginBlock".to_owned()),
                Place::Transaction => ("msg_index", "0".to_owned()),
                Place::End => ("mode", "EndBlock".to_owned()),
            });
        }
        self.say(&format!(r#"{{"type":"{kind}","attributes":["#));
        self.listed(&attributes, |writer, (key, value)| {
            writer.say(r#"{"key":""#);
            writer.spelled(key);
            writer.say(r#"","value":""#);
            writer.spelled(value);
            writer.say(r#"","index":true}"#);
        });
        self.say("]}");
    }

    fn spelled(&mut self, text: &str) {
        if self.dialect == Dialect::Tendermint034 {
            BASE64_STANDARD.encode_string(text, &mut self.out);
        } else {
            self.say(text);
        }
    }
}

type Attribute = (&'static str, String);

/// Type and attributes of an event, without those that say where it stands.
fn attributes(happening: &Happening, pairs: &[Pair], dialect: Dialect) -> (&'static str, Vec<Attribute>) {
    match happening {
        Happening::Other(number) => other(*number),
        Happening::Tick { pair, key, reserves, swapped } => {
            let Some(pair) = pairs.get(*pair) else { return other(0) };
            let mut all: Vec<Attribute> = vec![
                ("module", "dex".to_owned()),
                ("action", "TickUpdate".to_owned()),
                ("TokenZero", pair.token_zero.to_string()),
                ("TokenOne", pair.token_one.to_string()),
                ("TokenIn", pair.token_in(key.rests).to_string()),
                ("TickIndex", key.tick_index.to_string()),
            ];
            let newest = dialect == Dialect::Comet038;
            if !newest {
                // The releases of that time said this by mistake.
                all.push(("Fee", key.tick_index.to_string()));
            }
            let (whole, decimal) = spelled(*reserves);
            let parted = !decimal.bytes().skip(whole.len() + 1).all(|digit| digit == b'0');
            all.push(("Reserves", whole));
            // Those releases had no decimals; where there are some they are told all the same, for the same state.
            if newest || parted {
                all.push(("ReservesDec", decimal));
            }
            all.push(match &key.maker {
                Maker::Pool(fee) => ("Fee", fee.to_string()),
                Maker::Tranche(tranche) => ("TrancheKey", tranche.to_string()),
            });
            if let Some([paid, out]) = swapped.filter(|_| newest) {
                let [(paid, paid_dec), (out, out_dec)] = [spelled(paid), spelled(out)];
                all.push(("SwapAmountIn", paid));
                all.push(("SwapAmountOut", out));
                all.push(("SwapAmountInDec", paid_dec));
                all.push(("SwapAmountOutDec", out_dec));
            }
            ("TickUpdate", all)
        }
    }
}

/// What another module says.
fn other(number: u64) -> (&'static str, Vec<Attribute>) {
    let who = format!("neutron1qz{number:036}");
    let amount = format!("{}untrn", number % 99_991);
    match number % 5 {
        0 => ("message", vec![("action", "/neutron.dex.MsgPlaceLimitOrder".to_owned()), ("sender", who)]),
        1 => ("coin_spent", vec![("spender", who), ("amount", amount)]),
        2 => ("transfer", vec![("recipient", who.clone()), ("sender", who), ("amount", amount)]),
        3 => ("tx", vec![("fee", amount), ("fee_payer", who)]),
        // Of that name, but of no concern.
        _ => ("TickUpdate", vec![("module", "amm".to_owned()), ("TickIndex", "1".to_owned()), ("Reserves", amount)]),
    }
}

/// Whole units, and the same with 27 decimals.
fn spelled(steps: U256) -> (String, String) {
    let digits = format!("{steps:0>28}");
    let (whole, part) = digits.split_at(digits.len().saturating_sub(27));
    (whole.to_owned(), format!("{whole}.{part}"))
}

/// Bytes of an event in the newest dialect, about; whatever it is told in, the same happens.
pub(super) fn bytes(happening: &Happening, pairs: &[Pair]) -> usize {
    let (kind, attributes) = attributes(happening, pairs, Dialect::Comet038);
    let all = attributes.iter().map(|(key, value)| ATTRIBUTE_BYTES + key.len() + value.len());
    // Besides these, one that says where it stands.
    2 * ATTRIBUTE_BYTES + kind.len() + all.sum::<usize>()
}

/// The same of a transaction.
pub(super) fn bytes_of(transaction: &Transaction, pairs: &[Pair]) -> usize {
    4 * ATTRIBUTE_BYTES + transaction.happenings.iter().map(|happening| bytes(happening, pairs)).sum::<usize>()
}

/// A source snapshot.
pub(super) fn snapshot(height: u64, state: &[LiveTick]) -> String {
    let mut out = format!(r#"{{"height":"{height}","ticks":["#);
    for (at, tick) in state.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let LiveTick { token_zero, token_one, token_in, tick_index, fee, tranche_key, reserves } = tick;
        let maker = match (fee, tranche_key) {
            (_, Some(tranche)) => format!(r#""TrancheKey":"{tranche}""#),
            (fee, None) => format!(r#""Fee":"{}""#, fee.unwrap_or_default()),
        };
        let (whole, decimal) = spelled(*reserves);
        let written = write!(
            out,
            r#"{{"TokenZero":"{token_zero}","TokenOne":"{token_one}","TokenIn":"{token_in}","TickIndex":"{tick_index}",{maker},"Reserves":"{whole}","ReservesDec":"{decimal}"}}"#
        );
        debug_assert!(written.is_ok(), "writing into a text cannot fail");
    }
    out.push_str("]}");
    out
}
