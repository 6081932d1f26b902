"""Venues whose levels are rows with a life of their own: Bitfinex v2 and BitMEX `orderBookL2`.

Bitfinex: a row is price, count and amount; a count of 0 says that it is gone, the amount's sign is its side. The last word
of every array frame is one above that of the one before on its connection.
BitMEX: everything before a symbol's `partial` is discarded; rows are known by their id, whose price only the partial and
the insert say.

Never: a price made of an id; an update over a hole.
"""

from .book import Books, exact


def bitfinex(frames):
    books = Books()
    channels, last = {}, {}
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else None
        if isinstance(message, dict):
            if message["event"] == "subscribed" and message["channel"] == "book":
                channels[frame["conn"], message["chanId"]] = message["symbol"]
            continue
        if message is None:
            continue
        number = int(message[-1])
        if number != last.get(frame["conn"], number - 1) + 1:
            books.stats["gaps"] += 1
            books.live.clear()
        last[frame["conn"]] = number
        symbol, payload = channels.get((frame["conn"], message[0])), message[1]
        if symbol is None or not isinstance(payload, list):
            continue
        if not payload or isinstance(payload[0], list):
            book = books.snapshot(symbol)
            for row in payload:
                bitfinex_row(books, book, row)
            continue
        books.stats["depth_events"] += 1
        book = books.update(symbol)
        if book is not None:
            bitfinex_row(books, book, payload)
            books.updated(symbol)
    return books.result()


def bitfinex_row(books, book, row):
    price, count, amount = row
    side = book.asks if amount.startswith("-") else book.bids
    if count == "0":
        books.stats["unknown"] += not side.remove(price)
    else:
        side.put(price, amount.lstrip("-"))


def bitmex(frames):
    books = Books()
    prices = {}
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        if message.get("table") != "orderBookL2":
            continue
        action = message["action"]
        symbols = {row["symbol"] for row in message["data"]} | set(message.get("filter", {}).values())
        for symbol in symbols:
            if action == "partial":
                book = books.snapshot(symbol)
                prices[symbol] = {}
            else:
                books.stats["depth_events"] += 1
                book = books.update(symbol)
            if book is None:
                continue
            for row in message["data"]:
                if row["symbol"] == symbol:
                    bitmex_row(books, book, prices[symbol], action, row)
            if action != "partial":
                books.updated(symbol)
    return books.result()


def bitmex_row(books, book, prices, action, row):
    key = (row["id"], row["side"])
    side = book.side(row["side"])
    if action in ("partial", "insert"):
        prices[key] = row["price"]
    elif key not in prices:
        books.stats["unknown"] += 1
        return
    if action == "delete":
        side.remove(prices.pop(key))
    else:
        side.put(prices[key], row["size"])
