"""Venues that number the updates of a book and send its snapshot on the same stream: Kraken Futures and Deribit.

Kraken Futures: each update is one level, its `seq` one above the last of its product.
Deribit: a change names the change before it; rows are verb, price and amount.

Never: an update over a hole.
"""

from .book import Books, exact


def kraken_futures(frames):
    books = Books()
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        product = message.get("product_id")
        if message.get("feed") == "book_snapshot":
            book = books.snapshot(product, int(message["seq"]))
            book.put(*([(level["price"], level["qty"]) for level in message[name]] for name in ("bids", "asks")))
        elif message.get("feed") == "book" and "seq" in message:
            books.stats["depth_events"] += 1
            seq = int(message["seq"])
            if product in books.live and seq != books.live[product].last_update_id + 1:
                books.gap(product)
                continue
            book = books.update(product)
            if book is not None:
                book.side(message["side"]).put(message["price"], message["qty"])
                books.updated(product, seq)
    return books.result()


def deribit(frames):
    books = Books()
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        params = message.get("params", {})
        if not params.get("channel", "").startswith("book."):
            continue
        data = params["data"]
        symbol, change = data["instrument_name"], int(data["change_id"])
        if data["type"] == "snapshot":
            book = books.snapshot(symbol, change)
        else:
            books.stats["depth_events"] += 1
            if symbol in books.live and int(data["prev_change_id"]) != books.live[symbol].last_update_id:
                books.gap(symbol)
                continue
            book = books.update(symbol)
            if book is None:
                continue
        for side, rows in ((book.bids, data["bids"]), (book.asks, data["asks"])):
            for verb, price, amount in rows:
                if verb == "delete":
                    books.stats["unknown"] += not side.remove(price)
                else:
                    side.put(price, amount)
        if data["type"] != "snapshot":
            books.updated(symbol, change)
    return books.result()
