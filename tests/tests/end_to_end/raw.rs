//! A terminal without a library: bytes on a socket, read only when the test says so.
//!
//! Never: a frame taken off the socket unasked.

use anyhow::{Context, Result, bail, ensure};
use sprag_tests::process::{Answer, PATIENCE, read_answer};
use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

/// The example key of RFC 6455.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// The headers of a right upgrade.
pub(crate) const UPGRADE: [(&str, &str); 5] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Protocol", wire::SUBPROTOCOL),
];

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Binary(Vec<u8>),
    Close(Option<u16>),
    /// The connection is over.
    End,
}

pub(crate) struct RawTerminal {
    reader: BufReader<TcpStream>,
}

impl RawTerminal {
    /// Connects and upgrades.
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let headers: String = UPGRADE.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        stream.write_all(format!("GET /v1/stream HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").as_bytes())?;
        let mut reader = BufReader::new(stream);
        let answer: Answer = read_answer(&mut reader)?;
        ensure!(answer.status == 101, "{answer:?}");
        // What RFC 6455 gives for the key.
        ensure!(answer.header("sec-websocket-accept") == Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer:?}");
        ensure!(answer.header("sec-websocket-protocol") == Some(wire::SUBPROTOCOL), "{answer:?}");
        Ok(Self { reader })
    }

    pub(crate) fn send_binary(&mut self, payload: &[u8]) -> Result<()> {
        self.send(BINARY, payload)
    }

    pub(crate) fn send_text(&mut self, payload: &str) -> Result<()> {
        self.send(TEXT, payload.as_bytes())
    }

    fn send(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length)?),
            length @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(length)?.to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend(u64::try_from(length)?.to_be_bytes());
            }
        }
        // A mask of zeros is a mask.
        frame.extend([0; 4]);
        frame.extend(payload);
        Ok(self.reader.get_mut().write_all(&frame)?)
    }

    /// The next message; pings are passed over.
    pub(crate) fn next(&mut self) -> Result<Received> {
        loop {
            let mut head = [0; 2];
            if let Err(error) = self.reader.read_exact(&mut head) {
                use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
                ensure!(matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe), "nothing came: {error}");
                return Ok(Received::End);
            }
            ensure!(head[0] & 0x80 != 0 && head[1] & 0x80 == 0, "a part of a message, or a masked one: {head:?}");
            let length = match head[1] {
                126 => u64::from(u16::from_be_bytes(self.take()?)),
                127 => u64::from_be_bytes(self.take()?),
                length => u64::from(length),
            };
            let mut payload = vec![0; usize::try_from(length)?];
            self.reader.read_exact(&mut payload)?;
            match head[0] & 0x0f {
                BINARY => return Ok(Received::Binary(payload)),
                CLOSE => {
                    let code = payload.get(..2).map(<[u8; 2]>::try_from).transpose()?.map(u16::from_be_bytes);
                    return Ok(Received::Close(code));
                }
                9 | 10 => {}
                kind => bail!("a frame of kind {kind}"),
            }
        }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).context("a frame breaks off")?;
        Ok(bytes)
    }
}
