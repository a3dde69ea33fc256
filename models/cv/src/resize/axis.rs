/// One side of an image before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    source: usize,
    target: usize,
    /// Target pixels per source pixel.
    growth: f64,
    /// Source pixels per target pixel, the rounded inverse of `growth`.
    scale: f64,
}

/// The two source pixels blended for one target pixel, and the share of the second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) fraction: f32,
}

impl Tap {
    pub(super) fn contributing(self) -> impl Iterator<Item = usize> {
        let first = (self.fraction < 1.0).then_some(self.first);
        first
            .into_iter()
            .chain((self.fraction > 0.0).then_some(self.second))
    }
}

/// A source pixel's share in a target pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) source: usize,
    pub(super) weight: f32,
}

impl Axis {
    pub(super) fn new(source: u32, target: u32) -> Self {
        let growth = f64::from(target) / f64::from(source);
        Self {
            source: source as usize,
            target: target as usize,
            growth,
            scale: 1.0 / growth,
        }
    }

    pub(super) fn grows(&self) -> bool {
        self.scale < 1.0
    }

    pub(super) fn is_halved(&self) -> bool {
        self.whole_scale() == Some(2)
    }

    /// Source pixels per target pixel if that is a whole number.
    pub(super) fn whole_scale(&self) -> Option<usize> {
        let rounded = self.scale.round_ties_even();
        ((self.scale - rounded).abs() < f64::EPSILON).then_some(rounded as usize)
    }

    pub(super) fn nearest(&self) -> Vec<usize> {
        (0..self.target)
            .map(|at| ((at as f64 * self.scale) as usize).min(self.source - 1))
            .collect()
    }

    /// Taps around the target pixel's centre.
    pub(super) fn linear_taps(&self) -> Vec<Tap> {
        let taps = (0..self.target).map(|at| {
            // OpenCV goes on in single precision from here, and the fraction is rounded to a weight later.
            let position = ((at as f64 + 0.5) * self.scale - 0.5) as f32;
            let first = position.floor();
            self.tap(first as isize, position - first)
        });
        taps.collect()
    }

    /// Taps that `INTER_AREA` uses if a side grows.
    pub(super) fn area_taps(&self) -> Vec<Tap> {
        let taps = (0..self.target).map(|at| {
            let first = (at as f64 * self.scale).floor();
            // The part of the target pixel to the right of its first source pixel, in target pixels; negative
            // where it lies within that one.
            let overlap = ((at as f64 + 1.0) - (first + 1.0) * self.growth) as f32;
            self.tap(
                first as isize,
                if overlap <= 0.0 {
                    0.0
                } else {
                    overlap - overlap.floor()
                },
            )
        });
        taps.collect()
    }

    /// The two source pixels of a target pixel; beyond the ends the outermost pixel counts twice.
    fn tap(&self, first: isize, fraction: f32) -> Tap {
        let inside = |at: isize| at.clamp(0, self.source as isize - 1) as usize;
        Tap {
            first: inside(first),
            second: inside(first + 1),
            fraction,
        }
    }

    /// Source pixels that each target pixel covers, whole ones and the parts at its ends. Parts of less than a
    /// thousandth are left out.
    pub(super) fn area_shares(&self) -> Vec<Vec<Share>> {
        const LEAST_PART: f64 = 1e-3;
        let shares = (0..self.target).map(|at| {
            let from = at as f64 * self.scale;
            let to = from + self.scale;
            // At the end of a row rounding may let a pixel reach beyond the image; the shares of what is
            // there add up to one.
            let cell = self.scale.min(self.source as f64 - from);
            let last_whole = (to.floor() as usize).min(self.source - 1);
            // A target pixel that covers no source pixel whole has only a head and a tail.
            let first_whole = (from.ceil() as usize).min(last_whole);

            let share = |source: usize, part: f64| Share {
                source,
                weight: (part / cell) as f32,
            };
            let before = first_whole as f64 - from;
            let after = to - last_whole as f64;
            let head = (before > LEAST_PART).then(|| share(first_whole - 1, before));
            let tail = (after > LEAST_PART).then(|| share(last_whole, after.min(1.0).min(cell)));
            let whole = (first_whole..last_whole).map(|source| share(source, 1.0));
            head.into_iter().chain(whole).chain(tail).collect()
        });
        shares.collect()
    }
}
