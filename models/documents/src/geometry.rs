//! Boxes of words, lines and blocks.

pub(crate) use parkhang_cv::reading_order::Bounds;

pub(crate) fn width(bounds: &Bounds) -> f32 {
    bounds[2] - bounds[0]
}

pub(crate) fn height(bounds: &Bounds) -> f32 {
    bounds[3] - bounds[1]
}

pub(crate) fn middle(bounds: &Bounds, axis: usize) -> f32 {
    f32::midpoint(bounds[axis], bounds[axis + 2])
}

/// Area of a box; 0 for one that is turned inside out.
pub fn area(bounds: &Bounds) -> f32 {
    width(bounds).max(0.0) * height(bounds).max(0.0)
}

/// The smallest box around both.
pub(crate) fn union(one: &Bounds, other: &Bounds) -> Bounds {
    [
        one[0].min(other[0]),
        one[1].min(other[1]),
        one[2].max(other[2]),
        one[3].max(other[3]),
    ]
}

/// The smallest box around all; `None` around nothing.
pub(crate) fn around<'b>(boxes: impl IntoIterator<Item = &'b Bounds>) -> Option<Bounds> {
    boxes
        .into_iter()
        .copied()
        .reduce(|one, other| union(&one, &other))
}

/// Length that two boxes have in common along an axis; negative where there is a gap between them.
pub(crate) fn common(one: &Bounds, other: &Bounds, axis: usize) -> f32 {
    one[axis + 2].min(other[axis + 2]) - one[axis].max(other[axis])
}

/// Area that two boxes have in common.
pub fn intersection(one: &Bounds, other: &Bounds) -> f32 {
    common(one, other, 0).max(0.0) * common(one, other, 1).max(0.0)
}

/// True if the middle of `inner` lies in `outer`.
pub(crate) fn holds(outer: &Bounds, inner: &Bounds) -> bool {
    (0..2).all(|axis| {
        let middle = middle(inner, axis);
        outer[axis] <= middle && middle <= outer[axis + 2]
    })
}

/// The middle one of values; `None` of none.
pub(crate) fn median(mut values: Vec<f32>) -> Option<f32> {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied()
}
