//! What the tests share: where the recorded corpus is, and books rebuilt by code that owes nothing to the code under test.
//!
//! Never: anything that ships.

pub mod bench;
pub mod corpus;
pub mod fuzz;
pub mod process;
pub mod reference;
pub mod scenario;
