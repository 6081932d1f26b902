#!/usr/bin/env python3
"""Books rebuilt from a capture by the venues' published rules alone: the reference that everything else must equal.

Never: code, formats or numbers taken from Sprag itself. Python's standard library and the `zstd` tool only.

    reconstruct.py --venue NAME FILE [--json]

FILE is zstd-compressed JSON lines: {"ts_ns", "kind": "open|send|ws|http", "conn", "url"?, "raw"}.
With --json the whole result is printed: {"books": {instrument: {"bids", "asks", "last_update_id", "applied"}},
"stats": {...}}, levels best first, decimals exact and canonical. Without it, the counts.
"""

import argparse
import json
import subprocess
import sys

from venues import arrival, binance, blocks, fetched, interleaved, kraken, numbered, rows

VENUES = {
    "binance_spot": binance.spot,
    "binance_usdm": binance.usdm,
    "bitfinex": rows.bitfinex,
    "bitget": interleaved.rebuild,
    "bitmex": rows.bitmex,
    "bitstamp": fetched.bitstamp,
    "coinbase": arrival.coinbase,
    "deribit": numbered.deribit,
    "dydx_v3": arrival.dydx_v3,
    "gemini": arrival.gemini,
    "kraken_futures": numbered.kraken_futures,
    "kraken_v1": kraken.v1,
    "kraken_v2": kraken.v2,
    "kucoin": fetched.kucoin,
    "neutron_dex": blocks.neutron_dex,
    "okx": interleaved.rebuild,
}


def frames(path):
    """The capture's lines, in order."""
    with subprocess.Popen(["zstd", "-dc", "--", path], stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        raise SystemExit(f"zstd failed on {path}: {process.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venue", required=True, choices=sorted(VENUES))
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = VENUES[arguments.venue](frames(arguments.file))
    if arguments.json:
        json.dump(result, sys.stdout, sort_keys=True)
        print()
        return
    for symbol, book in sorted(result["books"].items()):
        print(f"{symbol}: {len(book['bids'])} bids, {len(book['asks'])} asks, {book['applied']} applied")
    for name, count in result["stats"].items():
        print(f"{name}: {count}")


if __name__ == "__main__":
    main()
