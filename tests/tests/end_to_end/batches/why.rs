//! `sprag why` names the event that gave a tick its value.
//!
//! Never: the event found by the store's own rows.

use super::{
    chain::{Chain, instrument, options},
    stage::{Stage, asks, durable, says},
};
use anyhow::{Context, Result};
use connectors::neutron_dex::message::decode_block;
use market::Side;

#[test]
fn the_event_of_a_tick_is_named() -> Result<()> {
    let chain = Chain::of(options(61), 8);
    let (stage, data) = (Stage::new()?, tempfile::tempdir()?);
    let server = stage.start(data.path())?;
    stage.publish(&chain.batches)?;
    durable(&server, chain.height(7))?;
    let ask = |tick: &&connectors::neutron_dex::generator::LiveTick| tick.token_in == tick.token_zero;
    let pool = chain.ticks.iter().filter(ask).find(|tick| tick.fee.is_some()).context("no pool")?;
    let order =
        chain.ticks.iter().filter(|tick| !ask(tick)).find(|tick| tick.tranche_key.is_some()).context("no order")?;
    for tick in [pool, order] {
        let side = if ask(&tick) { Side::Ask } else { Side::Bid };
        let price = if side == Side::Ask { tick.tick_index } else { -tick.tick_index };
        let maker = match (&tick.tranche_key, tick.fee) {
            (Some(tranche), _) => format!("tranche={tranche}"),
            (None, fee) => format!("fee={}", fee.unwrap_or(0)),
        };
        // The last event of the chain that is about it, as the documents say.
        let mut last = None;
        for batch in &chain.batches {
            let block = decode_block(&batch.content)?;
            for told in &block.ticks {
                let (zero, one) = &block.pairs[told.pair];
                let same = (&**zero, &**one) == (&*tick.token_zero, &*tick.token_one)
                    && (told.side, told.tick_index) == (side, price)
                    && *told.tranche == *tick.tranche_key.as_deref().unwrap_or_default()
                    && (tick.tranche_key.is_some() || Some(told.fee) == tick.fee);
                if same {
                    last = Some((block.height, told.ordinal));
                }
            }
        }
        let (height, ordinal) = last.context("no event")?;
        let named = format!("{}:{price}:{maker}", side.name());
        let text = says(data.path(), &["why", &instrument(tick), &named])?;
        assert!(text.contains(&format!("neutron-1/{height}/{ordinal}")), "{named}: {height}/{ordinal} in {text}");
        assert!(text.contains(&format!("block {height}, ")), "{text}");
        let answer = asks(data.path(), &["why", &instrument(tick), &named])?.to_string();
        assert!(answer.contains(&tick.reserves.to_string()), "{answer}");
    }
    Ok(())
}
