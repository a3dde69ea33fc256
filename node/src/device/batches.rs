//! Duration of a pass by how much goes through at once: where a device waits for its orders, many cost little more than one.

use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use parkhang_models::inference::InferenceError;
use parkhang_models::self_test::SelfTest;
use serde::Serialize;

use super::rate;
use super::report::{Report, State};

const SIZES: [usize; 4] = [1, 4, 16, 64];

/// Passes of one size. A size that the device has no memory for has no measurements.
#[derive(Debug, Clone, Serialize)]
pub struct Batch {
    /// Lines, or tiles, in one pass.
    pub at_once: usize,
    pub lines_per_s: Option<f64>,
    pub tiles_per_s: Option<f64>,
}

impl Batch {
    /// Duration of a pass, in milliseconds.
    fn pass_ms(&self, per_s: Option<f64>) -> Option<f64> {
        per_s.map(|per_s| 1000.0 * self.at_once as f64 / per_s)
    }
}

/// Measures passes of each size for `time`. Sizes after the first that does not fit are not tried.
pub fn of_sizes(test: &SelfTest, time: Duration) -> Vec<Batch> {
    let (mut lines_fit, mut tiles_fit) = (true, true);
    SIZES
        .into_iter()
        .map(|at_once| Batch {
            at_once,
            lines_per_s: measured(&mut lines_fit, || {
                rate(at_once, time, || test.read_lines(at_once))
            }),
            tiles_per_s: measured(&mut tiles_fit, || {
                rate(at_once, time, || test.segment_tiles(at_once))
            }),
        })
        .collect()
}

fn measured(fits: &mut bool, measure: impl FnOnce() -> Result<f64, InferenceError>) -> Option<f64> {
    let per_s = fits.then(measure)?.ok();
    *fits = per_s.is_some();
    per_s
}

pub fn table(reports: &[Report]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header([
        "device",
        "at once",
        "ms for lines",
        "lines/s",
        "ms for tiles",
        "tiles/s",
    ]);
    for report in reports {
        let State::Tested(tested) = &report.state else {
            continue;
        };
        for batch in &tested.batches {
            let shown =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            table.add_row([
                report.device(),
                batch.at_once.to_string(),
                shown(batch.pass_ms(batch.lines_per_s)),
                shown(batch.lines_per_s),
                shown(batch.pass_ms(batch.tiles_per_s)),
                shown(batch.tiles_per_s),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_does_not_fit_ends_the_measurements() {
        let mut fits = true;
        assert_eq!(measured(&mut fits, || Ok(8.0)), Some(8.0));
        assert_eq!(measured(&mut fits, || Err(InferenceError::NoLayout)), None);
        assert_eq!(measured(&mut fits, || Ok(9.0)), None);
    }

    #[test]
    fn a_pass_takes_what_its_lines_take() {
        let batch = Batch {
            at_once: 64,
            lines_per_s: Some(128.0),
            tiles_per_s: None,
        };
        assert_eq!(batch.pass_ms(batch.lines_per_s), Some(500.0));
        assert_eq!(batch.pass_ms(batch.tiles_per_s), None);
    }
}
