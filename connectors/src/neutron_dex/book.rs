//! What a block makes of its pairs: keys, prices and reserves in steps.
//!
//! Never: a number that was rounded.
