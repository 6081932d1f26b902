"""OKX v5 and Bitget v1: a snapshot replaces, also without notice; updates apply; then the signed checksum over the 25 best
levels of each side, interleaved, is compared, from the texts as they were sent.

Several sockets may carry the same books: each is rebuilt by itself, the one whose snapshot came first is reported, and
wherever two of them have told the same message the books must be the same.

Never: messages of two sockets in one book.
"""

import zlib
from itertools import zip_longest

from .book import STATS, Books, exact, fresh_stats

CHECKSUM_LEVELS = 25


def checksum(book):
    words = []
    for bid, ask in zip_longest(book.best_bids(CHECKSUM_LEVELS), book.best_asks(CHECKSUM_LEVELS), fillvalue=()):
        words += [*bid, *ask]
    unsigned = zlib.crc32(":".join(words).encode("ascii"))
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def rebuild(frames):
    sockets = {}
    first = {}
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" and frame["raw"].startswith("{") else {}
        if "action" not in message or not message["arg"]["channel"].startswith("books"):
            continue
        # Bitget's two markets call different instruments by one name.
        market = message["arg"].get("instType", "sp")
        symbol = message["arg"]["instId"] if market == "sp" else f"{market}:{message['arg']['instId']}"
        books, after = sockets.setdefault(frame["conn"], (Books(), {}))
        for data in message["data"]:
            snapshot = message["action"] == "snapshot"
            if snapshot:
                first.setdefault(symbol, frame["conn"])
                book = books.snapshot(symbol)
            else:
                books.stats["depth_events"] += 1
                book = books.update(symbol)
            if book is None:
                continue
            book.put(data["bids"], data["asks"])
            books.stats["checksums"] += 1
            books.stats["checksum_matches"] += checksum(book) == int(data["checksum"])
            if not snapshot:
                books.updated(symbol)
            after[symbol, data["ts"], data["checksum"]] = hash((frozenset(book.bids.levels.items()),
                                                                frozenset(book.asks.levels.items())))
    stats, reported, known = fresh_stats(), {}, {}
    for conn in sorted(sockets):
        books, after = sockets[conn]
        for message, book in after.items():
            if message in known:
                stats["leg_comparisons"] += 1
                stats["leg_mismatches"] += known[message] != book
            else:
                known[message] = book
        for name in STATS:
            stats[name] += books.stats[name]
        reported |= {symbol: book.report() for symbol, book in books.live.items() if first[symbol] == conn}
    return {"books": reported, "stats": stats}
