//! What books add to views and what comes out, by example and against plain fractions.
//!
//! Never: a float.

use super::*;
use crate::{TickChange, Window, scale::PRICE_POWERS};
use proptest::prelude::*;

const SCALE: Scale = Scale { price: -2, quantity: -3 };

fn u(value: u64) -> U256 {
    U256::from(value)
}

fn exact(steps: u64, exponent: i8) -> Exact {
    Exact::new(u(steps), exponent)
}

fn book_in(scale: Scale, window: Window, bids: &[(i64, u64)], asks: &[(i64, u64)]) -> Book {
    let side = |side, rows: &[(i64, u64)]| -> Vec<TickChange> {
        rows.iter().map(|(price, quantity)| TickChange::at(side, *price, u(*quantity))).collect()
    };
    let mut book = Book::default();
    let ticks = [side(Side::Bid, bids), side(Side::Ask, asks)].concat();
    book.replace(&ticks, scale, window, &mut Vec::new());
    book
}

fn book(bids: &[(i64, u64)], asks: &[(i64, u64)]) -> Book {
    book_in(SCALE, Window::Whole, bids, asks)
}

fn reserves(percent: &str) -> ViewRule {
    ViewRule::ReservesWithin(Band::parse(percent).unwrap())
}

fn band(bids: u64, asks: u64, partial: bool) -> Option<ViewPart> {
    Some(ViewPart::Band { bids: Some(exact(bids, -3)), asks: Some(exact(asks, -3)), partial })
}

#[test]
fn a_band_reaches_its_percentage_of_the_mid_both_ends_included() {
    // The mid is 100.00.
    let book = book(&[(9_990, 1), (9_900, 2), (9_899, 4)], &[(10_010, 8), (10_100, 16), (10_101, 32)]);
    assert_eq!(reserves("1").part(&book), band(3, 24, false));
    assert_eq!(reserves("1.01").part(&book), band(7, 56, false));
    assert_eq!(reserves("0.9999").part(&book), band(1, 8, false));
    assert_eq!(reserves("0.1").part(&book), band(1, 8, false));
    assert_eq!(reserves("0.0999").part(&book), band(0, 0, false));
    assert_eq!(reserves("100").part(&book), band(7, 56, false));
}

#[test]
fn a_mid_between_two_steps_is_not_rounded() {
    // The mid is 100.005: a percent below it is 99.00495, above it 101.00505.
    let book = book(&[(10_000, 1), (9_901, 2), (9_900, 4)], &[(10_001, 8), (10_100, 16), (10_101, 32)]);
    assert_eq!(reserves("1").part(&book), band(3, 24, false));
}

#[test]
fn a_book_without_a_mid_or_without_decimal_prices_has_no_part() {
    for empty in [book(&[], &[]), book(&[(100, 1)], &[]), book(&[], &[(100, 1)]), book(&[(-2, 1)], &[(100, 1)])] {
        assert_eq!(reserves("1").part(&empty), None);
    }
    let powers = book_in(Scale { price: PRICE_POWERS, quantity: 0 }, Window::Whole, &[(1, 1)], &[(2, 1)]);
    assert_eq!((reserves("1").part(&powers), ViewRule::Spread.part(&powers)), (None, None));
    assert_eq!(ViewRule::Spread.part(&book(&[], &[])), None);
    let top = ViewPart::Top { bid: Some(exact(1, 0)), ask: None };
    assert_eq!(ViewRule::Spread.part(&book(&[(100, 1)], &[])), Some(top));
    assert_eq!(ViewRule::Spread.part(&book(&[(100, 1)], &[(-5, 1)])), Some(top));
}

#[test]
fn of_a_crossed_book_what_is_better_than_the_band_is_out_of_it() {
    // The mid is 100.00 again; 1 percent is 99 to 101.
    let crossed = book(&[(10_200, 1), (10_100, 2), (9_950, 4)], &[(9_800, 8), (9_900, 16), (10_050, 32)]);
    assert_eq!(reserves("1").part(&crossed), band(6, 48, false));
    assert_eq!(reserves("2").part(&crossed), band(7, 56, false));
}

#[test]
fn prices_of_zero_are_a_band_of_their_own() {
    assert_eq!(reserves("5").part(&book(&[(0, 1)], &[(0, 2), (1, 4)])), band(1, 2, false));
}

#[test]
fn no_sum_crosses_a_horizon_and_one_that_would_is_partial() {
    let (bids, asks) = ([(9_990, 1), (9_950, 2)], [(10_010, 8), (10_050, 16)]);
    let mut known = book_in(SCALE, Window::Known(2), &bids, &asks);
    assert_eq!(known.horizon(Side::Bid), Some(9_950));
    assert_eq!(reserves("0.5").part(&known), band(3, 24, false), "the band ends at the horizon");
    assert_eq!(reserves("0.6").part(&known), band(3, 24, true));
    // What comes beyond the horizon is kept, and is in no sum.
    known.apply(TickChange::at(Side::Bid, 9_940, u(64)));
    known.apply(TickChange::at(Side::Ask, 10_060, u(128)));
    assert_eq!(reserves("0.6").part(&known), band(3, 24, true));
    // One side alone is enough.
    let one = book_in(SCALE, Window::Known(2), &bids[..1], &asks);
    assert_eq!((one.horizon(Side::Bid), one.horizon(Side::Ask)), (None, Some(10_050)));
    assert_eq!(reserves("1").part(&one), band(1, 24, true));
}

/// Crossed with its mid, 6.5, beyond what is known of the bids: 5 percent of it are no whole step, 20 percent are two.
#[test]
fn a_band_without_a_price_in_it_reaches_beyond_no_horizon() {
    let mut known = book_in(SCALE, Window::Known(1), &[(8, 1), (13, 1)], &[]);
    known.apply(TickChange::at(Side::Ask, 0, u(1)));
    assert_eq!(known.horizon(Side::Bid), Some(8));
    assert_eq!(reserves("5").part(&known), band(0, 0, false));
    assert_eq!(reserves("20").part(&known), band(0, 0, true));
}

#[test]
fn a_book_whose_top_is_not_known_adds_nothing_and_says_so() {
    let mut known = book_in(SCALE, Window::Known(1), &[(9_990, 1)], &[(10_010, 8)]);
    known.apply(TickChange::at(Side::Bid, 9_990, U256::ZERO));
    known.apply(TickChange::at(Side::Bid, 9_000, u(5)));
    assert!(known.flags().exhausted);
    assert_eq!(reserves("50").part(&known), band(0, 0, true));
    assert_eq!(ViewRule::Spread.part(&known), None);
}

#[test]
fn sums_over_books_of_other_steps_are_exact() {
    let part = |bids, asks| ViewPart::Band { bids: Some(bids), asks: Some(asks), partial: false };
    let parts = [part(exact(15, -1), exact(3, 0)), part(exact(25, -2), exact(0, 0)), part(exact(1, 3), exact(1, -18))];
    let value = reserves("1").value(&parts);
    let asks = Exact::new(u(3_000_000_000_000_000_001), -18);
    assert_eq!(value.number, ViewNumber::Reserves { bids: exact(100_175, -2), asks });
    assert_eq!((value.instruments, value.partial), (3, false));
    let partial = ViewPart::Band { bids: Some(exact(0, 0)), asks: Some(exact(0, 0)), partial: true };
    let value = reserves("1").value([&partial, &parts[0]]);
    assert_eq!((value.instruments, value.partial), (2, true));
}

#[test]
fn what_256_bits_do_not_hold_is_told_as_such() {
    let most = Some(Exact::new(U256::MAX, 0));
    let part = |bids, asks| ViewPart::Band { bids, asks, partial: false };
    let one = Some(exact(1, 0));
    assert_eq!(
        reserves("1").value(&[part(most, one)]).number.clone(),
        ViewNumber::Reserves { bids: Exact::new(U256::MAX, 0), asks: exact(1, 0) }
    );
    let over = [
        [part(most, one), part(one, one)],
        [part(one, most), part(one, Some(exact(1, -1)))],
        [part(None, one), part(one, one)],
    ];
    for parts in over {
        assert_eq!(reserves("1").value(&parts).number, ViewNumber::Overflow);
        let imbalance = ViewRule::ImbalanceWithin(Band::of_ppm(1).unwrap());
        assert_eq!(imbalance.value(&parts).number, ViewNumber::Overflow);
    }
    let wide = [ViewPart::Top { bid: Some(exact(1, -120)), ask: most }];
    assert_eq!(ViewRule::Spread.value(&wide).number, ViewNumber::Overflow);
    // A sum within one book.
    let mut deep = book(&[(9_999, 1)], &[(10_001, 1)]);
    deep.apply(TickChange::at(Side::Bid, 9_998, U256::MAX));
    let Some(ViewPart::Band { bids, asks, .. }) = reserves("1").part(&deep) else { panic!("no part") };
    assert_eq!((bids, asks), (None, Some(exact(1, -3))));
}

fn imbalance(bids: Exact, asks: Exact) -> ViewNumber {
    let part = ViewPart::Band { bids: Some(bids), asks: Some(asks), partial: false };
    ViewRule::ImbalanceWithin(Band::of_ppm(1).unwrap()).value(&[part]).number
}

fn ppm(ppm: i32) -> ViewNumber {
    ViewNumber::Imbalance(Imbalance::of_ppm(ppm).unwrap())
}

#[test]
fn an_imbalance_is_rounded_to_the_nearest_a_half_away_from_zero() {
    assert_eq!(imbalance(exact(0, 0), exact(0, 0)), ViewNumber::Nothing);
    assert_eq!(imbalance(exact(1, -9), exact(0, 0)), ppm(1_000_000));
    assert_eq!(imbalance(exact(0, 0), exact(1, 30)), ppm(-1_000_000));
    assert_eq!(imbalance(exact(3, 0), exact(1, 0)), ppm(500_000));
    assert_eq!(imbalance(exact(2, 0), exact(1, 0)), ppm(333_333));
    assert_eq!(imbalance(exact(1, 0), exact(5, 0)), ppm(-666_667));
    // 1 of 4,000,000 is a quarter of a millionth, 1 of 2,000,000 a half.
    assert_eq!(imbalance(exact(2_000_001, 0), exact(2_000_000, 0)), ppm(0));
    assert_eq!(imbalance(exact(1_000_001, 0), exact(999_999, 0)), ppm(1));
    assert_eq!(imbalance(exact(2_000_001, 0), exact(1_999_999, 0)), ppm(1));
    assert_eq!(imbalance(exact(1_999_999, 0), exact(2_000_001, 0)), ppm(-1));
    assert_eq!(imbalance(Exact::new(U256::MAX, 0), Exact::new(U256::MAX, 0)), ppm(0));
    assert_eq!(Imbalance::of_ppm(1_000_001), None);
    let text = |ppm| Imbalance::of_ppm(ppm).unwrap().to_string();
    assert_eq!([text(-250_000), text(0), text(7), text(1_000_000)], ["-0.250000", "0.000000", "0.000007", "1.000000"]);
}

#[test]
fn a_spread_over_venues_may_be_below_zero() {
    let top = |bid: Option<Exact>, ask: Option<Exact>| ViewPart::Top { bid, ask };
    let spread = |parts: &[ViewPart]| ViewRule::Spread.value(parts);
    let some = |steps, exponent| Some(exact(steps, exponent));
    let text = |parts: &[ViewPart]| match spread(parts).number {
        ViewNumber::Spread(spread) => spread.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(&[top(some(100, 0), some(1_005, -1))]), "0.5");
    assert_eq!(text(&[top(some(100, 0), some(102, 0)), top(some(99, 0), some(1_001, -1))]), "0.1");
    assert_eq!(text(&[top(some(101, 0), some(102, 0)), top(some(99, 0), some(100, 0))]), "-1");
    assert_eq!(text(&[top(some(101, 0), None), top(None, some(101, 0))]), "0");
    assert_eq!(spread(&[top(some(101, 0), None)]).number, ViewNumber::Nothing);
    assert_eq!(SignedExact::new(true, exact(0, 0)), SignedExact::new(false, exact(0, 0)));
}

#[test]
fn a_width_is_read_exactly_or_refused() {
    for (text, ppm) in [("1", 10_000), ("0.0001", 1), ("100", 1_000_000), ("2.50", 25_000), ("1e1", 100_000)] {
        assert_eq!(Band::parse(text).map(Band::ppm), Ok(ppm), "{text}");
    }
    for text in ["0", "-1", "100.0001", "101", "1e70"] {
        assert_eq!(Band::parse(text), Err(BandError::OutOfRange), "{text}");
    }
    assert_eq!(Band::parse("0.00001"), Err(BandError::Finer));
    assert_eq!(Band::parse("1 %"), Err(BandError::Number(DecimalError::Malformed)));
    let shown = |ppm| Band::of_ppm(ppm).unwrap().to_string();
    assert_eq!([shown(10_000), shown(1), shown(25_000), shown(1_000_000)], ["1", "0.0001", "2.5", "100"]);
}

#[test]
fn a_number_names_a_view_and_a_pair() {
    let key = |view, pair| ViewKey { view: ViewId::new(view).unwrap(), pair: PairId(pair) };
    for key in [key(0, 0), key(31, 0), key(0, 1), key(31, INSTRUMENTS_MAX)] {
        assert_eq!(ViewKey::of_number(key.number()), key);
    }
    assert_eq!(ViewId::new(VIEWS_MAX), None);
    let set = Views::NONE.with(key(3, 0).view).with(key(31, 0).view);
    assert_eq!(set.iter().map(ViewId::place).collect::<Vec<_>>(), [3, 31]);
    assert!(Views::NONE.is_empty() && !set.has(key(4, 0).view));
}

fn rows() -> impl Strategy<Value = Vec<(i64, u64)>> {
    prop::collection::vec((0_i64..60, 1_u64..9), 0..12).prop_map(|mut rows| {
        rows.sort_by_key(|(price, _)| *price);
        rows.dedup_by_key(|(price, _)| *price);
        rows
    })
}

proptest! {
    /// By the words of the definition: `|price - mid| / mid <= percent / 100`, multiplied out.
    #[test]
    fn any_book_adds_what_the_definition_says(
        bids in rows(), asks in rows(), width in 1_u32..=1_000_000, known in prop::option::of(0_u32..12),
    ) {
        let window = known.map_or(Window::Whole, Window::Known);
        let book = book_in(SCALE, window, &bids, &asks);
        let rule = ViewRule::ReservesWithin(Band::of_ppm(width).unwrap());
        let (Some((bid, _)), Some((ask, _))) = (bids.last(), asks.first()) else {
            prop_assert!(rule.part(&book).is_none_or(|part| part == band(0, 0, true).unwrap()));
            return Ok(());
        };
        let inside = |price: i64| {
            (2 * i128::from(price) - i128::from(bid + ask)).abs() * 1_000_000 <= i128::from(width) * i128::from(bid + ask)
        };
        let sum = |rows: &[(i64, u64)]| rows.iter().filter(|(price, _)| inside(*price)).map(|(_, quantity)| quantity).sum();
        // Every price from zero to double the mid that is inside and worse than what is known.
        let beyond = |side: Side| book.horizon(side).is_some_and(|horizon| {
            (-1..=bid + ask + 1).any(|price| inside(price) && side.rank(price) < side.rank(horizon))
        });
        let right = band(sum(&bids), sum(&asks), beyond(Side::Bid) || beyond(Side::Ask));
        prop_assert_eq!(rule.part(&book), right);
    }

    #[test]
    fn sums_and_differences_are_those_of_whole_numbers(a in 0_u64..1_000_000, b in 0_u64..1_000_000, i in -6_i8..7, j in -6_i8..7) {
        let value = |steps: u64, exponent: i8| u128::from(steps) * 10_u128.pow(u32::from((exponent + 6).unsigned_abs()));
        let whole = |value: u128| Exact::new(U256::from(value), -6);
        let (one, two) = (exact(a, i), exact(b, j));
        let (left, right) = (value(a, i), value(b, j));
        prop_assert_eq!(one.checked_add(two), Some(whole(left + right)));
        prop_assert_eq!(one.checked_sub(two), left.checked_sub(right).map(whole));
        let difference = SignedExact::new(left < right, whole(left.abs_diff(right)));
        prop_assert_eq!(SignedExact::difference(one, two), Some(difference));
        if left + right > 0 {
            let (num, den) = (i128::try_from(left).unwrap() - i128::try_from(right).unwrap(), i128::try_from(left + right).unwrap());
            let ViewNumber::Imbalance(found) = imbalance(one, two) else { panic!("no number") };
            // Off by half a millionth at the most.
            prop_assert!((2 * (i128::from(found.ppm()) * den - num * 1_000_000)).abs() <= den);
        }
    }
}
