//! Points in time as arguments: absolute, or an age.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

/// Point in time, absolute or relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    At(DateTime<Utc>),
    Ago(TimeDelta),
}

impl Since {
    pub fn before(self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Self::At(time) => time,
            // An age that reaches beyond the calendar means everything.
            Self::Ago(distance) => now.checked_sub_signed(distance).unwrap_or(DateTime::UNIX_EPOCH),
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            return Ok(Self::At(time.to_utc()));
        }
        if let Ok(day) = NaiveDate::from_str(text) {
            return Ok(Self::At(day.and_time(NaiveTime::MIN).and_utc()));
        }
        humantime::parse_duration(text)
            .ok()
            .and_then(|ago| TimeDelta::from_std(ago).ok())
            .map(Self::Ago)
            .ok_or_else(|| {
                "must be a time such as 2026-11-22T10:00:00Z, a day such as 2026-11-22, or an age such as 7d"
                    .to_owned()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parkhang_core::domain::testing::at;

    #[test]
    fn a_time_may_be_told_in_three_ways() {
        let now = at(0);
        for (text, expected) in [
            ("2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
            ("2023-11-15T00:13:20+02:00", "2023-11-14T22:13:20Z"),
            ("2023-11-01", "2023-11-01T00:00:00Z"),
            ("2days", "2023-11-12T22:13:20Z"),
        ] {
            let time = text.parse::<Since>().unwrap().before(now);
            assert_eq!(time, expected.parse::<DateTime<Utc>>().unwrap(), "{text}");
        }
        for text in ["", "yesterday", "2023-13-01", "7"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }
}
