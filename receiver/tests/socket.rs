//! A terminal against real sockets: upgrade, subscription, data, a broken connection, the next one, another server.
//!
//! Never: a port that is not the system's choice.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use futures_util::{SinkExt, StreamExt};
use market::{Feed, Level, LevelChange, Scale, Side, U256, Venue, Version};
use receiver::{Link, Notice, ReceiverError, Terminal};
use std::time::Duration;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{Request, Response},
        http::HeaderValue,
        protocol::CloseFrame,
    },
};
use wire::{
    Answer, Block, BookDelta, BookSnapshot, ChainKind, Channel, CloseNotice, Dictionary, DictionaryInstrument, Frame,
    Hello, SUBPROTOCOL, SubscriptionItem, ToServer, ToTerminal,
};

const NAME: &str = "binance_spot/BTCUSDT";

type Socket = WebSocketStream<TcpStream>;

#[expect(clippy::result_large_err, reason = "the signature is the library's")]
async fn accept(listener: &TcpListener) -> Socket {
    let (stream, _) = listener.accept().await.unwrap();
    accept_hdr_async(stream, |request: &Request, mut response: Response| {
        assert_eq!(request.headers()["sec-websocket-protocol"], SUBPROTOCOL);
        response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(SUBPROTOCOL));
        Ok(response)
    })
    .await
    .unwrap()
}

async fn send(socket: &mut Socket, message: ToTerminal) {
    socket.send(Message::Binary(message.encode().unwrap())).await.unwrap();
}

async fn request(socket: &mut Socket) -> ToServer {
    loop {
        if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
            return ToServer::decode(&bytes).unwrap();
        }
    }
}

/// Hello, dictionary, and the answer to the subscription that must come.
async fn welcome(socket: &mut Socket, generation: u64, id: u32) {
    let hello =
        Hello { wire_version: 1, generation, build: "test".into(), frame_ms: 40, heartbeat_ms: 200, simulated: true };
    send(socket, ToTerminal::Hello(hello)).await;
    let instrument = DictionaryInstrument {
        id,
        venue: Venue::BinanceSpot,
        symbol: "BTCUSDT".into(),
        asset_0: "BTC".into(),
        asset_1: "USDT".into(),
        pair: 0,
    };
    send(socket, ToTerminal::Dictionary(Dictionary { generation, instruments: vec![instrument], pairs: vec![] })).await;
    let ToServer::Subscribe(subscription) = request(socket).await else { panic!("no subscription") };
    assert_eq!(subscription.items, [item()]);
    send(socket, ToTerminal::Answer(Answer { request: subscription.request, matched: 1 })).await;
}

fn item() -> SubscriptionItem {
    SubscriptionItem { channel: Channel::Book, pattern: "binance_spot/*".into() }
}

fn frame(block: Block) -> ToTerminal {
    ToTerminal::Frame(Frame { chain: ChainKind::Conflated, frame: 1, at_ms: 0, blocks: vec![block] })
}

fn snapshot(id: u32, seq: u64) -> ToTerminal {
    frame(Block::BookSnapshot(BookSnapshot {
        id,
        version: Version::new(1, seq),
        scale: Scale { price: -2, quantity: -8 },
        feed: Feed::default(),
        age_ms: 0,
        horizon: [None, None],
        bids: vec![Level { tick_index: 100, quantity: U256::from(seq) }],
        asks: vec![],
    }))
}

fn delta(id: u32, base: u64, seq: u64) -> ToTerminal {
    let level = Level { tick_index: 100, quantity: U256::from(seq) };
    frame(Block::BookDelta(BookDelta {
        id,
        base: Version::new(1, base),
        version: Version::new(1, seq),
        feed: Feed::default(),
        changes: vec![LevelChange { side: Side::Bid, level }],
    }))
}

/// Drives the terminal until the notice is seen; connection errors on the way are collected.
async fn until(terminal: &mut Terminal, want: impl Fn(&Notice) -> bool) -> Vec<ReceiverError> {
    let mut errors = Vec::new();
    let seen = async {
        loop {
            match terminal.next().await {
                Ok(notices) if notices.iter().any(&want) => return,
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
    };
    timeout(Duration::from_secs(20), seen).await.unwrap();
    errors
}

fn shows(seq: u64) -> impl Fn(&Notice) -> bool {
    move |notice| matches!(notice, Notice::BookChanged { version, .. } if version.seq == seq)
}

#[tokio::test]
async fn a_terminal_subscribes_resyncs_reconnects_and_never_shows_less() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        welcome(&mut socket, 1, 0).await;
        send(&mut socket, snapshot(0, 10)).await;
        send(&mut socket, delta(0, 11, 12)).await;
        let ToServer::Resync(resync) = request(&mut socket).await else { panic!("no resync") };
        assert_eq!(resync.items, [(Channel::Book, 0)]);
        send(&mut socket, snapshot(0, 12)).await;
        drop(socket);
        let mut socket = accept(&listener).await;
        welcome(&mut socket, 2, 5).await;
        send(&mut socket, snapshot(5, 11)).await;
        send(&mut socket, delta(5, 11, 13)).await;
        let reason = CloseNotice { reconnect_after_ms: 10 }.to_reason().into();
        socket.close(Some(CloseFrame { code: wire::close::CLOSE_DRAIN.into(), reason })).await.unwrap();
        let mut socket = accept(&listener).await;
        welcome(&mut socket, 3, 0).await;
        send(&mut socket, snapshot(0, 14)).await;
        // Alive on the line, but without a frame: silent.
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    });
    let mut terminal = Terminal::new(&url, &[item()]).unwrap();
    assert!(until(&mut terminal, shows(10)).await.is_empty());
    assert!(until(&mut terminal, shows(12)).await.is_empty());
    let errors = until(&mut terminal, |notice| matches!(notice, Notice::RegressionRefused { .. })).await;
    assert!(matches!(errors[..], [ReceiverError::Socket(_) | ReceiverError::Closed { .. }]), "{errors:?}");
    assert_eq!(terminal.session().book(NAME).map(|book| book.version().seq), Some(12));
    assert!(until(&mut terminal, shows(13)).await.is_empty());
    let errors = until(&mut terminal, shows(14)).await;
    assert!(matches!(errors[..], [ReceiverError::Busy { wait_ms: 10 }]), "{errors:?}");
    let errors = until(&mut terminal, |notice| *notice == Notice::Link(Link::Down)).await;
    assert!(matches!(errors[..], [ReceiverError::Silent]), "{errors:?}");
    terminal.close().await;
    server.await.unwrap();
    assert_eq!(terminal.session().counters().regressions_refused, 1);
}

#[tokio::test]
async fn a_dropped_call_loses_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        welcome(&mut socket, 1, 0).await;
        send(&mut socket, snapshot(0, 10)).await;
        for seq in 11..60 {
            send(&mut socket, delta(0, seq - 1, seq)).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let mut terminal = Terminal::new(&url, &[item()]).unwrap();
    let shown = async {
        while terminal.session().book(NAME).is_none_or(|book| book.version().seq < 59) {
            let _dropped = timeout(Duration::from_millis(2), terminal.next()).await;
        }
    };
    timeout(Duration::from_secs(20), shown).await.unwrap();
    assert_eq!(terminal.session().counters().deltas_refused, 0);
    server.await.unwrap();
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let refusal = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(refusal).await.unwrap();
        stream
    });
    let mut terminal = Terminal::new(&url, &[]).unwrap();
    let refused = terminal.next().await;
    assert!(matches!(refused, Err(ReceiverError::Busy { wait_ms: 7_000 })), "{refused:?}");
    drop(server.await.unwrap());
}

#[tokio::test]
async fn what_one_server_showed_is_kept_until_another_reaches_it() {
    let listeners = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let urls = listeners.each_ref().map(|listener| format!("ws://{}/", listener.local_addr().unwrap()));
    let [first, second] = listeners;
    let (go_on, told) = tokio::sync::oneshot::channel();
    let servers = tokio::spawn(async move {
        let mut socket = accept(&first).await;
        welcome(&mut socket, 1, 0).await;
        send(&mut socket, snapshot(0, 10)).await;
        // Sent away for a minute: only the other server is left.
        let reason = CloseNotice { reconnect_after_ms: 60_000 }.to_reason().into();
        socket.close(Some(CloseFrame { code: wire::close::CLOSE_DRAIN.into(), reason })).await.unwrap();
        let mut socket = accept(&second).await;
        welcome(&mut socket, 2, 5).await;
        send(&mut socket, snapshot(5, 8)).await;
        send(&mut socket, delta(5, 8, 9)).await;
        told.await.unwrap();
        send(&mut socket, delta(5, 9, 12)).await;
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    });
    let mut terminal = Terminal::of_servers(&urls, &[item()]).unwrap();
    assert_eq!(terminal.server(), urls[0]);
    assert!(until(&mut terminal, shows(10)).await.is_empty());
    let errors = until(&mut terminal, |notice| matches!(notice, Notice::RegressionRefused { .. })).await;
    assert!(matches!(errors[..], [ReceiverError::Busy { wait_ms: 60_000 }]), "{errors:?}");
    assert_eq!(terminal.server(), urls[1]);
    let view = terminal.session().view(NAME, terminal.now_ms()).unwrap();
    assert!(view.catching_up && view.book.is_some_and(|book| book.version().seq == 10));
    go_on.send(()).unwrap();
    assert!(until(&mut terminal, shows(12)).await.is_empty());
    assert!(!terminal.session().view(NAME, terminal.now_ms()).unwrap().catching_up);
    terminal.close().await;
    servers.await.unwrap();
}

#[tokio::test]
async fn a_ping_is_answered_while_nothing_else_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut socket = accept(&listener).await;
        welcome(&mut socket, 1, 0).await;
        for round in 0..20_u8 {
            socket.send(Message::Ping(vec![round].into())).await.unwrap();
            let pong = timeout(Duration::from_secs(1), socket.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(pong, Message::Pong(vec![round].into()));
            // Pings alone are no life: frames are. So that the terminal stays, one comes now and then.
            if round % 4 == 0 {
                let blocks = vec![];
                send(&mut socket, ToTerminal::Frame(Frame { chain: ChainKind::Conflated, frame: 1, at_ms: 0, blocks }))
                    .await;
            }
        }
        send(&mut socket, snapshot(0, 10)).await;
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    });
    let mut terminal = Terminal::new(&url, &[item()]).unwrap();
    assert!(until(&mut terminal, shows(10)).await.is_empty());
    terminal.close().await;
    server.await.unwrap();
}

#[tokio::test]
async fn a_message_over_the_bound_is_a_typed_error_and_the_next_server_is_tried() {
    let listeners = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let urls = listeners.each_ref().map(|listener| format!("ws://{}/", listener.local_addr().unwrap()));
    let [first, second] = listeners;
    let servers = tokio::spawn(async move {
        let mut socket = accept(&first).await;
        welcome(&mut socket, 1, 0).await;
        send(&mut socket, snapshot(0, 10)).await;
        let over = vec![3; wire::bounds::MESSAGE_BYTES_MAX + 1];
        // The terminal leaves while it is sent.
        drop(socket.send(Message::Binary(over.into())).await);
        let mut socket = accept(&second).await;
        welcome(&mut socket, 2, 0).await;
        send(&mut socket, snapshot(0, 11)).await;
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    });
    let mut terminal = Terminal::of_servers(&urls, &[item()]).unwrap();
    let errors = until(&mut terminal, shows(11)).await;
    assert!(
        matches!(errors[..], [ReceiverError::TooLarge { bytes }] if bytes > wire::bounds::MESSAGE_BYTES_MAX),
        "{errors:?}"
    );
    terminal.close().await;
    servers.await.unwrap();
}

#[test]
fn what_is_no_websocket_url_is_refused_at_once() {
    assert!(matches!(Terminal::new("http://localhost/", &[]), Err(ReceiverError::Url(_))));
    assert!(matches!(Terminal::new("not a url", &[]), Err(ReceiverError::Url(_))));
    assert!(matches!(Terminal::of_servers::<&str>(&[], &[]), Err(ReceiverError::NoServer)));
    assert!(matches!(Terminal::of_servers(&["ws://localhost/", "tcp://localhost/"], &[]), Err(ReceiverError::Url(_))));
}
