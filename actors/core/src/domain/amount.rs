//! Amounts of money, in whatever currency an operator counts.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Billionths in one unit of the currency.
const NANOS: u64 = 1_000_000_000;
/// Digits behind the point.
const DECIMALS: usize = 9;

/// Amount of money, exact to a billionth: the price of one token of a language model is no whole number of millionths. Sums stop at the
/// largest amount, some nine billion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

/// Text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no amount such as 12.50, with nine digits behind the point at most")]
pub struct InvalidAmount(String);

impl Amount {
    pub const ZERO: Self = Self(0);
    /// Largest amount, which fits a column of the database.
    const MAX: u64 = i64::MAX as u64;

    /// Amount of so many billionths, up to the largest one.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos.min(Self::MAX))
    }

    pub const fn nanos(self) -> u64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::from_nanos(self.0.saturating_add(other.0))
    }

    /// The amount so many times, divided by `parts` and rounded up, so that a fraction of a billionth is never free.
    #[must_use]
    pub fn times(self, number: u64, parts: u64) -> Self {
        let product = u128::from(self.0) * u128::from(number);
        let share = product.div_ceil(u128::from(parts.max(1)));
        Self::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let invalid = || InvalidAmount(text.to_owned());
        let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let has_digits = !whole.is_empty() || !decimals.is_empty();
        if !has_digits || !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
            return Err(invalid());
        }
        let digits = format!("{whole}{decimals:0<DECIMALS$}");
        let nanos = digits.parse().ok().filter(|nanos| *nanos <= Self::MAX);
        nanos.map(Self).ok_or_else(invalid)
    }
}

impl fmt::Display for Amount {
    /// Writes two digits behind the point, and more where there are more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:09}", self.0 % NANOS);
        let shown = decimals.trim_end_matches('0').len().max(2);
        write!(f, "{}.{}", self.0 / NANOS, &decimals[..shown])
    }
}

impl Serialize for Amount {
    /// Writes a text: as a number many programs would round it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

/// Reader of amounts, which may be texts or numbers.
struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount such as 12.50")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        text.parse()
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<Amount, E> {
        whole
            .to_string()
            .parse()
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(whole), &self))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<Amount, E> {
        whole
            .to_string()
            .parse()
            .map_err(|_| E::invalid_value(Unexpected::Signed(whole), &self))
    }

    /// Takes the shortest decimals that mean the number, which are those that somebody wrote.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        number
            .to_string()
            .parse()
            .map_err(|_| E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_written_as_people_write_them() {
        let shown = |text: &str| text.parse::<Amount>().map(|amount| amount.to_string());
        for (text, expected) in [
            ("12", "12.00"),
            ("12.5", "12.50"),
            (" .0015 ", "0.0015"),
            ("0.000000001", "0.000000001"),
            ("9223372036.854775807", "9223372036.854775807"),
        ] {
            assert_eq!(shown(text), Ok(expected.to_owned()));
        }
        for text in [
            "",
            ".",
            "-1",
            "1,5",
            "1e3",
            "EUR 3",
            "0.0000000001",
            "9223372036.854775808",
        ] {
            assert_eq!(shown(text), Err(InvalidAmount(text.to_owned())));
        }
    }

    #[test]
    fn numbers_of_a_configuration_are_amounts_too() {
        let read = |text: &str| serde_json::from_str::<Amount>(text);
        for text in ["0.0015", "\"0.0015\""] {
            assert_eq!(read(text).unwrap().nanos(), 1_500_000);
        }
        assert_eq!(read("20").unwrap().to_string(), "20.00");
        let error = read("-1").unwrap_err().to_string();
        assert!(error.contains("expected an amount such as 12.50"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(nanos in 0..=Amount::MAX) {
            let amount = Amount::from_nanos(nanos);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            let json = serde_json::to_string(&amount).unwrap();
            prop_assert_eq!(serde_json::from_str::<Amount>(&json).unwrap(), amount);
        }

        #[test]
        fn shares_are_rounded_up_and_never_overflow(nanos in any::<u64>(), number in any::<u64>(), parts in any::<u64>()) {
            let amount = Amount::from_nanos(nanos);
            let share = amount.times(number, parts);
            prop_assert_eq!(share.is_zero(), amount.is_zero() || number == 0);
            prop_assert!(share.plus(amount) >= share);
        }
    }
}
