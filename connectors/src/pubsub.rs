//! Google Pub/Sub: batches as messages, in numbered parts where they are large; pulled under leases, and published.
//!
//! A batch is one content, compressed once. Its SHA-256 names it. Every message of it carries the same attributes, but
//! for the number of its part ([`header`]).
//!
//! Never: a message that is acknowledged before who pulled it says so; the meaning of a content.

pub mod client;
pub mod content;
pub mod header;
pub mod parts;
pub mod publish;
pub mod pull;
