//! What single events tell, and what is refused of them.
//!
//! Never: a right value that the code under test has made.

use super::*;

/// A pool's ask, as text or in base64, with some attributes set, or taken away where the value is empty.
fn attributes(coded: bool, changes: &[(&str, &str)]) -> Attributes<'static> {
    let mut all = vec![
        ("module", "dex"),
        ("action", "TickUpdate"),
        ("TokenZero", "untrn"),
        ("TokenOne", "uusdc"),
        ("TokenIn", "untrn"),
        ("TickIndex", "-7"),
        ("Reserves", "12"),
        ("Fee", "5"),
        ("msg_index", "0"),
    ];
    for (key, value) in changes {
        all.retain(|(known, _)| known != key || *key == "Fee");
        if !value.is_empty() {
            all.push((key, value));
        }
    }
    let mut attributes = Attributes::default();
    for (key, value) in all {
        let spelled = |text: &str| if coded { BASE64_STANDARD.encode(text) } else { text.to_owned() };
        attributes.take(&spelled(key), spelled(value).into());
    }
    attributes
}

fn told(changes: &[(&str, &str)]) -> Result<Told<'static>, TickFault> {
    let plain = attributes(false, changes).tick();
    let coded = attributes(true, changes).tick().map(|told| Told { coded: false, ..told });
    assert_eq!(plain, coded, "the same in base64");
    plain
}

fn steps(text: &str) -> U256 {
    text.parse().unwrap()
}

#[test]
fn no_name_is_another_ones_in_base64() {
    for [plain, coded] in name::ALL {
        assert_eq!(BASE64_STANDARD.encode(plain), coded);
        assert!(name::ALL.iter().all(|[other, _]| *other != coded));
    }
    for pair in BEFORE.chunks(2) {
        assert_eq!(BASE64_STANDARD.encode(pair[0]), pair[1]);
    }
}

#[test]
fn an_ask_rests_token_zero_and_a_bid_token_one_at_the_negative_exponent() {
    let ask = told(&[]).unwrap();
    assert_eq!((ask.side, ask.tick_index, ask.fee, &*ask.tranche), (Side::Ask, -7, 5, ""));
    assert_eq!(ask.reserves, steps("12000000000000000000000000000"));
    let bid = told(&[("TokenIn", "uusdc")]).unwrap();
    assert_eq!((bid.side, bid.tick_index), (Side::Bid, 7));
}

#[test]
fn the_last_fee_counts_and_none_beside_a_tranche() {
    assert_eq!(told(&[("Fee", "1")]).unwrap().fee, 1);
    assert_eq!(told(&[("Fee", "-23027"), ("Fee", "10")]).unwrap().fee, 10);
    let tranche = told(&[("Fee", "-23027"), ("TrancheKey", "tk-0")]).unwrap();
    assert_eq!((tranche.fee, &*tranche.tranche), (0, "tk-0"));
    assert_eq!(told(&[("Fee", "-1")]), Err(value(name::FEE, "-1")));
    assert_eq!(told(&[("Fee", "4294967296")]), Err(value(name::FEE, "4294967296")));
    let long = "x".repeat(TRANCHE_BYTES_MAX + 1);
    assert!(matches!(told(&[("TrancheKey", &long)]), Err(TickFault::Value { field: "TrancheKey", .. })));
}

#[test]
fn reserves_are_exact_to_27_decimals_and_never_contradict() {
    for (whole, decimal, right) in [
        ("0", "0.4", "400000000000000000000000000"),
        ("0", "0.000000000000000000000000001", "1"),
        ("0", "0.000000000000000000000000000", "0"),
        ("1000899", "1000899.910008999100089991000899910", "1000899910008999100089991000899910"),
        ("5", "5", "5000000000000000000000000000"),
        ("5", "5.", "5000000000000000000000000000"),
        ("5", "5.0000000000000000000000000000000", "5000000000000000000000000000"),
        // More digits than 128 bits hold.
        (
            "100000000000000000000000000000000000000000000000000",
            "100000000000000000000000000000000000000000000000000.25",
            "100000000000000000000000000000000000000000000000000250000000000000000000000000",
        ),
    ] {
        let told = told(&[("Reserves", whole), ("ReservesDec", decimal)]).unwrap();
        assert_eq!(told.reserves, steps(right), "{whole} {decimal}");
    }
    for (whole, decimal) in [("1", "0.4"), ("0", "1.0"), ("1", "2"), ("10", "1.0")] {
        let told = told(&[("Reserves", whole), ("ReservesDec", decimal)]);
        assert!(matches!(told, Err(TickFault::Contradiction { .. })), "{whole} {decimal}: {told:?}");
    }
}

#[test]
fn a_number_that_is_none_is_negative_or_does_not_fit_is_named() {
    let greatest = U256::MAX.to_string();
    let beyond = format!("{}0", U256::MAX);
    let bad = ["NaN", "Infinity", "-1", "abc", "1e400", "0x10", " 1", "1 ", "1_0", "٣", &greatest, &beyond];
    for text in bad {
        let told = told(&[("Reserves", text)]);
        assert!(matches!(told, Err(TickFault::Number { field: "Reserves", .. })), "{text}: {told:?}");
    }
    for text in bad.into_iter().chain(["0.0000000000000000000000000001", ".", "1.2.3", "1.-2"]) {
        let told = told(&[("Reserves", "0"), ("ReservesDec", text)]);
        let field = "ReservesDec";
        let contradicts = text == "Infinity" || text == greatest;
        let is = |fault: &TickFault| matches!(fault, TickFault::Number { field: found, .. } if *found == field);
        assert!(told.as_ref().is_err_and(is) || contradicts && told.is_err(), "{text}: {told:?}");
    }
    for text in ["", "1.5", "559681", "-559681", "9223372036854775808", "NaN", "1e3"] {
        let mut attributes = attributes(false, &[("TickIndex", "")]);
        attributes.take("TickIndex", Cow::Owned(text.to_owned()));
        assert_eq!(attributes.tick(), Err(value(name::TICK_INDEX, text)));
    }
    assert_eq!(told(&[("TickIndex", "559680")]).unwrap().tick_index, TICK_INDEX_MAX);
    let mut empty = attributes(false, &[("Reserves", "")]);
    empty.take("Reserves", "".into());
    assert!(matches!(empty.tick(), Err(TickFault::Number { field: "Reserves", .. })));
}

#[test]
fn what_is_missing_is_named() {
    for field in ["TokenZero", "TokenOne", "TokenIn", "TickIndex", "Reserves"] {
        assert_eq!(told(&[(field, "")]), Err(TickFault::Missing { field }));
    }
    let mut bare = Attributes::default();
    for (key, value) in [("TokenZero", "a"), ("TokenOne", "b"), ("TokenIn", "a"), ("TickIndex", "1"), ("Reserves", "1")]
    {
        bare.take(key, value.into());
    }
    assert_eq!(bare.clone().tick(), Err(TickFault::Missing { field: "Fee or TrancheKey" }));
    assert_eq!(bare.event(), Err(TickFault::Missing { field: "module" }));
    assert_eq!(attributes(false, &[("module", "amm")]).event(), Ok(None));
    assert!(attributes(true, &[]).event().unwrap().is_some());
}

#[test]
fn tokens_are_two_in_their_order_and_token_in_is_one_of_them() {
    assert_eq!(told(&[("TokenOne", "untrn")]), Err(value(name::TOKEN_ZERO, "untrn")));
    assert_eq!(told(&[("TokenOne", "aaa")]), Err(value(name::TOKEN_ZERO, "untrn")));
    assert_eq!(told(&[("TokenIn", "uatom")]), Err(value(name::TOKEN_IN, "uatom")));
    for bad in ["a<>b", "a b", "a\n", "ü", &"x".repeat(DENOM_BYTES_MAX + 1)] {
        assert!(matches!(told(&[("TokenZero", bad)]), Err(TickFault::Value { field: "TokenZero", .. })), "{bad}");
    }
}

#[test]
fn a_thing_said_twice_differently_or_in_two_spellings_is_refused() {
    let mut twice = attributes(false, &[]);
    twice.take("Reserves", "12".into());
    assert!(twice.clone().tick().is_ok(), "the same again");
    twice.take("Reserves", "13".into());
    assert_eq!(twice.tick(), Err(TickFault::Twice { field: "Reserves" }));
    let mut mixed = attributes(false, &[]);
    mixed.take("RmVl", "NQ==".into());
    assert_eq!(mixed.tick(), Err(TickFault::Mixed));
    let mut torn = attributes(true, &[]);
    torn.take("UmVzZXJ2ZXNEZWM=", "12".into());
    assert_eq!(torn.tick(), Err(TickFault::Base64 { field: "ReservesDec" }));
}
