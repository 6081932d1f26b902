//! A venue by hand: a WebSocket server whose every step is the test's, and a REST server whose every answer is.
//!
//! Never: an answer that the test did not write.

use super::PATIENCE;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

/// Where the venue listens.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
}

impl Listening {
    pub(super) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(super) fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://{}{path}", self.listener.local_addr().unwrap())
    }

    pub(super) async fn tcp(&self) -> TcpStream {
        timeout(PATIENCE, self.listener.accept()).await.expect("somebody connects").unwrap().0
    }

    /// The next WebSocket connection, which must be to this path.
    pub(super) async fn socket(&self, path: &str) -> Socket {
        let right = path.to_owned();
        #[expect(clippy::result_large_err, reason = "the library's callback has this shape")]
        let check = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(request.uri().path(), right);
            Ok(response)
        };
        Socket { stream: accept_hdr_async(self.tcp().await, check).await.unwrap() }
    }

    /// The next REST request: its path with the query, and where the answer goes.
    pub(super) async fn request(&self) -> (String, Answer) {
        let mut stream = self.tcp().await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, stream.read_u8()).await.expect("a whole request").unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        assert!(head.starts_with("GET ") && head.to_lowercase().contains("user-agent: sprag/"), "{head}");
        (path, Answer { stream })
    }
}

/// An open request.
pub(super) struct Answer {
    stream: TcpStream,
}

impl Answer {
    pub(super) async fn with(mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        let text = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub(super) async fn ok(self, body: &str) {
        self.with("200 OK", "", body).await;
    }
}

/// An open connection.
pub(super) struct Socket {
    pub(super) stream: WebSocketStream<TcpStream>,
}

impl Socket {
    pub(super) async fn say(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// The next text that the other side sends.
    pub(super) async fn hear(&mut self) -> Value {
        loop {
            match timeout(PATIENCE, self.stream.next()).await.expect("a message").unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Whether the other side ended the connection, after whatever it still sent.
    pub(super) async fn ended(&mut self) -> bool {
        let end = async { while let Some(Ok(_)) = self.stream.next().await {} };
        timeout(PATIENCE, end).await.is_ok()
    }
}
