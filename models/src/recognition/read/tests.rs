use image::{GrayImage, Luma};

use super::*;
use crate::inference::LineBatch;

/// A network that reads the ink of every fourth column of the first row as a class number.
#[derive(Debug)]
struct ColumnReader {
    classes: usize,
}

impl Recognizer for ColumnReader {
    fn logits(&self, lines: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
        let answer = |(line, &width): (usize, &usize)| {
            let row = &lines.values[line * lines.height * lines.width..][..width];
            let shown = row.chunks(4).map(|column| (column[0] * 10.0).round() as usize);
            let values: Vec<f32> = shown
                .flat_map(|shown| (0..self.classes).map(move |class| if class == shown { 9.0 } else { 0.0 }))
                .collect();
            Logits {
                frames: values.len() / self.classes,
                classes: self.classes,
                values,
            }
        };
        Ok(lines.line_widths.iter().enumerate().map(answer).collect())
    }
}

/// A line whose columns show classes, four pixels each, with a blank after each, over a rule from end to end.
fn line(classes: &[u8]) -> GrayImage {
    let width = 8 * classes.len() as u32;
    GrayImage::from_fn(width, 8, |x, y| {
        if y == 7 {
            return Luma([0]);
        }
        let class = if x % 8 < 4 { classes[x as usize / 8] } else { 0 };
        Luma([255 - (f32::from(class) * 25.5) as u8])
    })
}

fn options(encoding: Encoding) -> ReadOptions {
    ReadOptions {
        preprocessing: Preprocessing::Ink {
            height: 8,
            stroke_pitch: None,
        },
        decoder: Decoder::default(),
        language: None,
        encoding,
        batch: BatchLimits::default(),
    }
}

fn read(images: &[GrayImage], charset: &Charset, encoding: Encoding) -> Vec<LineText> {
    let lines: Vec<LineImage<'_>> = images
        .iter()
        .map(|image| LineImage { image, bilevel: true })
        .collect();
    let recognizer = ColumnReader {
        classes: charset.classes(),
    };
    read_lines(&lines, &recognizer, charset, &options(encoding)).unwrap()
}

fn texts(lines: &[LineText]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn answers_come_in_the_order_of_the_lines() {
    let charset = Charset::new(["ཀ", "ཁ", "་", " "]).unwrap();
    let images = [
        line(&[1, 3, 2, 3, 1, 3, 2, 3, 1, 3, 2]),
        line(&[2, 4, 1]),
        GrayImage::new(0, 8),
        line(&[1, 3, 1, 3]),
    ];
    let lines = read(&images, &charset, Encoding::Unicode);
    assert_eq!(texts(&lines), ["ཀ་ཁ་ཀ་ཁ་ཀ་ཁ", "ཁ ཀ", "", "ཀ་ཀ་"]);
    assert_eq!(lines[2], LineText::default());
    assert!(lines[0].confidence > 0.9);
    let spans: Vec<_> = lines[3]
        .syllables
        .iter()
        .map(|s| (s.text.as_str(), s.x_start, s.x_end))
        .collect();
    assert_eq!(spans, [("ཀ་", 0, 12), ("ཀ་", 16, 28)]);
    assert_eq!(
        texts(&read(&images, &charset, Encoding::Wylie)),
        ["ka kha ka kha ka kha", "kha_ka", "", "ka ka"]
    );
}

#[test]
fn wylie_charsets_write_standard_wylie_or_unicode() {
    let charset = Charset::new(["k", "a", "§", "ä", "}", "/", "~", "X"])
        .unwrap()
        .spelled_in(Encoding::Wylie);
    let images = [line(&[4, 1, 2, 5, 3, 1, 2, 7, 8, 6])];
    assert_eq!(
        texts(&read(&images, &charset, Encoding::Wylie)),
        [r"\u0f09kaH ka~X/"]
    );
    let lines = read(&images, &charset, Encoding::Unicode);
    assert_eq!(texts(&lines), ["༉ཀཿ་ཀ༵།"]);
    let syllables: Vec<&str> = lines[0]
        .syllables
        .iter()
        .map(|syllable| syllable.text.as_str())
        .collect();
    assert_eq!(syllables, ["༉ཀཿ་", "ཀ༵།"]);
}

#[test]
fn answers_that_do_not_fit_are_errors() {
    #[derive(Debug)]
    struct Silent;
    impl Recognizer for Silent {
        fn logits(&self, _: &LineBatch) -> Result<Vec<Logits>, InferenceError> {
            Ok(Vec::new())
        }
    }
    let charset = Charset::new(["ཀ", "ཁ", "་"]).unwrap();
    let image = line(&[1, 2]);
    let lines = [LineImage {
        image: &image,
        bilevel: true,
    }];
    let options = options(Encoding::Unicode);
    assert!(matches!(
        read_lines(&lines, &Silent, &charset, &options),
        Err(InferenceError::Shape { .. })
    ));
    let other_model = ColumnReader { classes: 7 };
    assert!(matches!(
        read_lines(&lines, &other_model, &charset, &options),
        Err(InferenceError::Failed(_))
    ));
}
