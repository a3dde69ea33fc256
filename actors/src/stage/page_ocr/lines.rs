//! Lines as an engine has read them.

/// What turns a picture into text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The networks for print.
    Print,
    /// The networks for lines of Tibetan.
    Tibetan,
}

impl Engine {
    /// Name of the engine in tables.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Print => "ppocr",
            Self::Tibetan => "parkhang",
        }
    }
}

/// Edges of an upright box: left, top, right, bottom.
pub(super) type Bounds = [f32; 4];

/// A word with its box.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadWord {
    pub text: String,
    pub bounds: Bounds,
    /// 0 to 1.
    pub confidence: f32,
}

/// A line with its words in the order in which they are read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadLine {
    pub words: Vec<ReadWord>,
    /// Box of the line, which may be wider than those of its words together.
    pub bounds: Bounds,
    /// 0 to 1.
    pub confidence: f32,
    pub engine: Engine,
}

impl ReadLine {
    /// Number of letters, by which lines are weighed.
    pub(super) fn letters(&self) -> usize {
        self.words.iter().map(|word| word.text.chars().count()).sum()
    }

    /// The line with all its boxes mapped.
    pub(super) fn mapped(mut self, map: impl Fn(Bounds) -> Bounds) -> Self {
        self.bounds = map(self.bounds);
        for word in &mut self.words {
            word.bounds = map(word.bounds);
        }
        self
    }
}

/// Mean confidence of lines, each with the weight of its letters; 0 without any.
pub(super) fn confidence(lines: &[ReadLine]) -> f32 {
    let (mut sum, mut letters) = (0.0, 0.0);
    for line in lines {
        let weight = line.letters() as f32;
        sum += weight * line.confidence;
        letters += weight;
    }
    if letters > 0.0 { sum / letters } else { 0.0 }
}

/// Area of a box; 0 for one without extent.
pub(super) fn area([x0, y0, x1, y1]: Bounds) -> f32 {
    (x1 - x0).max(0.0) * (y1 - y0).max(0.0)
}

/// Area that two boxes share.
pub(super) fn shared(one: Bounds, other: Bounds) -> f32 {
    area([
        one[0].max(other[0]),
        one[1].max(other[1]),
        one[2].min(other[2]),
        one[3].min(other[3]),
    ])
}

/// True for a letter or sign of the Tibetan block.
pub(super) fn is_tibetan(letter: char) -> bool {
    ('\u{0f00}'..='\u{0fff}').contains(&letter)
}
