//! Every limit of the wire, with its reason. A message beyond one is refused by the encoder and by the decoder.
//!
//! Never: a bound that only one side knows; both read these.

/// Longest message to a terminal. A terminal's read buffer is sized by it; the largest book of a venue (some 100,000
/// levels of 12 bytes) fits ten times over.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a frame beside its blocks: its header (21 bytes at most), its end mark, and some to spare.
pub const FRAME_BYTES_BESIDE_BLOCKS: usize = 32;

/// Longest single block: what a frame can hold beside its own bytes.
pub const BLOCK_BYTES_MAX: usize = MESSAGE_BYTES_MAX - FRAME_BYTES_BESIDE_BLOCKS;

/// Most blocks in one frame. The smallest has 3 bytes on the wire and some 200 in memory, so that the message's length
/// alone would let a server make a terminal allocate a gigabyte.
pub const BLOCKS_MAX: usize = 131_072;

/// Longest message to the server. It is held per connection before any right is checked, so it is small.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Most items in one request: a whole screen of instruments, and still cheap to match.
pub const ITEMS_MAX: usize = 1_024;

/// Longest glob pattern of a subscription: the longest instrument text and room for classes and alternatives.
pub const PATTERN_BYTES_MAX: usize = 512;

/// Most levels on one side of a snapshot: ten times the deepest book seen, and not enough to exhaust a terminal.
pub const LEVELS_MAX: usize = 1_000_000;

/// Most changes on one side of a delta; more than a whole side could only be a snapshot.
pub const CHANGES_MAX: usize = LEVELS_MAX;

/// Most trades in one block; a frame with more carries several blocks of the instrument.
pub const TRADES_MAX: usize = 65_536;

/// Most entries of each kind in one dictionary message; a longer dictionary is several messages.
pub const DICTIONARY_ENTRIES_MAX: usize = 65_536;

/// Most entries in one gap notice: every subscription that a request could have named, on every channel.
pub const GAP_ENTRIES_MAX: usize = 65_536;

/// Longest symbol, in the venue's spelling: two on-chain denominations of 128 bytes, and what stands between them.
pub const SYMBOL_BYTES_MAX: usize = 264;

/// Longest asset name; on-chain denominations have up to 71 bytes.
pub const ASSET_BYTES_MAX: usize = 128;

/// Most standing views of a server.
pub const VIEWS_MAX: usize = market::view::VIEWS_MAX;

/// Longest name of a standing view, the bound of the configuration.
pub const VIEW_NAME_BYTES_MAX: usize = market::view::VIEW_NAME_BYTES_MAX;

/// Longest venue name; they are ours and short.
pub const VENUE_BYTES_MAX: usize = 32;

/// Longest trade id, the bound of the tape itself.
pub const TRADE_ID_BYTES_MAX: usize = market::trade::TRADE_ID_BYTES_MAX;

/// Longest build text in a hello: a version, a commit, a profile.
pub const BUILD_BYTES_MAX: usize = 128;

/// Longest text beside an error code: one sentence for a person.
pub const ERROR_TEXT_BYTES_MAX: usize = 512;
