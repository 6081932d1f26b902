//! A venue's connection: requests in, messages out, and the beats that a venue sends by itself.
//!
//! Never: a wait for a connection that does not read, beyond its queue's bound.

use super::{
    Shared, binance,
    kraken_spot::Kraken,
    outbox::{End, Outbox},
};
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use market::Venue;
use socket2::SockRef;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Interval, MissedTickBehavior},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

/// The largest message that is taken: a subscription to every pair of a venue is far smaller.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The other side may take so long to answer a close frame.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// A socket that takes nothing for this long is gone.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// The server is going away.
const GOING_AWAY: u16 = 1001;

type Socket = WebSocketStream<TcpStream>;

/// Serves a connection until either side ends it.
pub(super) async fn serve(upgraded: Upgraded, venue: Venue, number: u64, outbox: Arc<Outbox>, shared: &Arc<Shared>) {
    let config =
        WebSocketConfig::default().max_message_size(Some(REQUEST_BYTES_MAX)).max_frame_size(Some(REQUEST_BYTES_MAX));
    // The connection that was accepted is one of TCP.
    let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else { return };
    let (tcp, read) = (parts.io.into_inner(), parts.read_buf.to_vec());
    let handle = SockRef::from(&tcp).try_clone();
    let socket = WebSocketStream::from_partially_read(tcp, read, Role::Server, Some(config)).await;
    let (sink, mut stream) = socket.split();
    let mut writing = tokio::spawn(write(sink, Arc::clone(&outbox)));
    let mut stop = shared.stop.subscribe();
    let mut pings = every(shared.beats.ping);
    let mut heartbeats = every(shared.beats.heartbeat);
    let pinged = binance::VENUES.contains(&venue);
    let (mut stopping, mut frozen) = (false, false);
    let end = loop {
        tokio::select! {
            end = &mut writing => break end.ok().flatten(),
            () = outbox.until_frozen(), if !frozen => frozen = true,
            message = stream.next(), if !frozen => match message {
                Some(Ok(message)) => receive(shared, venue, number, &message),
                Some(Err(_)) | None => {
                    outbox.end(End::Abort);
                    break None;
                }
            },
            _ = pings.tick(), if pinged && !frozen => ping(shared, venue, number, &outbox),
            _ = heartbeats.tick(), if !pinged => beat(shared, venue, number),
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                // The writing ends with it.
                stopping = true;
                outbox.end(End::Close(GOING_AWAY, ""));
            }
        }
    };
    writing.abort();
    if outbox.ending() == Some(End::Reset) {
        // With nothing to linger for, the end of the socket is a reset.
        let reset = handle.and_then(|handle| handle.set_linger(Some(Duration::ZERO)));
        tracing::trace!(%venue, number, ?reset, "reset");
        return;
    }
    if end.is_some() {
        // The close frame is on its way: the other side may answer it.
        let answered = async { while let Some(Ok(_)) = stream.next().await {} };
        let in_time = tokio::time::timeout(CLOSE_MAX, answered).await.is_ok();
        tracing::trace!(%venue, number, in_time, "closed");
    }
}

/// A beat that begins one period from now.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Binance asks each connection whether it lives; the payload is its time.
fn ping(shared: &Shared, venue: Venue, number: u64, outbox: &Outbox) {
    let payload = super::http::unix_ms().to_string();
    let lives = shared.world().bus.ping(venue, number, payload, shared.beats.pong_max);
    if !lives {
        outbox.end(End::Close(1008, "Pong timeout"));
    }
}

/// What a venue sends by itself every so often.
fn beat(shared: &Shared, venue: Venue, number: u64) {
    let mut world = shared.world();
    match world.hall_mut(venue) {
        Some((hall, bus)) => hall.beat(bus, number),
        None => Kraken::beat(&mut world.bus, number),
    }
}

fn receive(shared: &Shared, venue: Venue, number: u64, message: &Message) {
    let world = &mut *shared.world();
    let text = match message {
        Message::Text(text) => Some(text.as_str()),
        Message::Binary(bytes) => std::str::from_utf8(bytes).ok().or(Some("")),
        Message::Pong(_) => return world.bus.pong(venue, number),
        // The pong itself is the protocol's business; venues count the ping.
        Message::Ping(_) => None,
        Message::Close(_) | Message::Frame(_) => return,
    };
    match (venue, text, &mut world.kraken) {
        (Venue::BinanceSpot | Venue::BinanceUsdm, text, _) => binance::receive(&mut world.bus, venue, number, text),
        (Venue::KrakenSpot, Some(text), Some(kraken)) => kraken.receive(&mut world.bus, number, text),
        (venue, Some(text), _) => {
            if let Some((hall, bus)) = world.hall_mut(venue) {
                hall.receive(bus, number, text);
            }
        }
        _ => {}
    }
    // The tape may wait for subscribers.
    shared.changed.notify_one();
}

/// Writes what the outbox holds; gives the end if a close frame could be sent.
async fn write(mut sink: SplitSink<Socket, Message>, outbox: Arc<Outbox>) -> Option<End> {
    while let Some(batch) = outbox.next().await {
        let sent = async {
            for message in batch {
                sink.feed(message).await?;
            }
            sink.flush().await
        };
        tokio::select! {
            sent = tokio::time::timeout(WRITE_MAX, sent) => sent.ok()?.ok()?,
            _ = outbox.until_end() => break,
        }
    }
    let end @ End::Close(code, reason) = outbox.until_end().await else { return None };
    let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
    let closed = tokio::time::timeout(CLOSE_MAX, sink.send(Message::Close(Some(frame)))).await;
    matches!(closed, Ok(Ok(()))).then_some(end)
}
