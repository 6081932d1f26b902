"""Neutron's exchange module: `TickUpdate` events of CometBFT block results, each of which sets what rests at one tick.

Events count in the order of BeginBlock, transactions, EndBlock; those of transactions that failed change nothing. A tick is
(tokens, TokenIn, TickIndex, Fee or TrancheKey). In the place of a price stands `TickIndex maker`, lower index first.

Never: an attribute by its place; a float.
"""

import base64
import json

from .book import canonical, fresh_stats

ORDINAL_BITS = 30


def neutron_dex(frames):
    pairs, stats, last = {}, fresh_stats(), -1
    for frame in frames:
        if frame["kind"] not in ("ws", "http"):
            continue
        document = json.loads(frame["raw"])
        results = document.get("result", document)
        height = int(results["height"])
        if height <= last:
            continue
        last = height
        touched = set()
        for ordinal, (event, failed) in enumerate(in_order(results)):
            if failed or event.get("type") != "TickUpdate":
                continue
            told = attributes(event)
            if told["module"] != "dex":
                continue
            stats["depth_events"] += 1
            stats["applied"] += 1
            symbol = f"{told['TokenZero']}<>{told['TokenOne']}"
            pair = pairs.setdefault(symbol, {"bids": {}, "asks": {}, "place": 0, "blocks": 0})
            if told["TokenIn"] not in (told["TokenZero"], told["TokenOne"]):
                raise SystemExit(f"{told['TokenIn']} is no token of {symbol}")
            side = pair["asks" if told["TokenIn"] == told["TokenZero"] else "bids"]
            maker = f"tranche {told['TrancheKey']}" if "TrancheKey" in told else f"fee {told['Fee']}"
            key = (int(told["TickIndex"]), maker.encode())
            reserves = canonical(told.get("ReservesDec", told["Reserves"]))
            if reserves == "0":
                side.pop(key, None)
            else:
                side[key] = reserves
            pair["place"] = height << ORDINAL_BITS | ordinal
            touched.add(symbol)
        for symbol in touched:
            pairs[symbol]["blocks"] += 1
    return {"books": {symbol: report(pair) for symbol, pair in pairs.items()}, "stats": stats}


def report(pair):
    def rows(side):
        return [[f"{index} {maker.decode()}", reserves] for (index, maker), reserves in sorted(side.items())]

    return {
        "bids": rows(pair["bids"]),
        "asks": rows(pair["asks"]),
        "last_update_id": str(pair["place"]),
        "applied": pair["blocks"],
    }


def in_order(results):
    """Every event with whether its transaction failed."""
    finalized = results.get("finalize_block_events") or []
    yield from ((event, False) for event in results.get("begin_block_events") or [])
    yield from ((event, False) for event in finalized if is_before(event))
    for transaction in results.get("txs_results") or []:
        failed = (transaction.get("code") or 0) != 0
        yield from ((event, failed) for event in transaction.get("events") or [])
    yield from ((event, False) for event in results.get("end_block_events") or [])
    yield from ((event, False) for event in finalized if not is_before(event))


def is_before(event):
    modes = [at.get("value") for at in event.get("attributes") or [] if at.get("key") == "mode"]
    return bool(modes) and modes[-1] in ("BeginBlock", "PreBlock")


def attributes(event):
    """By name, the last of each; of base64 where the names are."""
    texts = [(at.get("key"), at.get("value")) for at in event.get("attributes") or []]
    texts = [(key, value) for key, value in texts if key is not None and value is not None]
    coded = [base64.b64encode(name).decode() for name in (b"module", b"TokenZero")]
    if any(key in coded for key, _ in texts):
        texts = [(base64.b64decode(key).decode(), base64.b64decode(value).decode()) for key, value in texts]
    return dict(texts)
