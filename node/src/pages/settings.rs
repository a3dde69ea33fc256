//! Decision about who reads the pages that have to be read.

use parkhang_actors::intake::ChunkSize;

use super::arguments::ReadingArgs;

/// Words of variables and flags that switch something on or off.
const ON: [&str; 4] = ["true", "1", "yes", "on"];
const OFF: [&str; 4] = ["false", "0", "no", "off"];

/// Reader of the pages that have to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// The pages are detected and nothing more.
    Nobody,
    /// Whoever receives from the queue.
    Queue {
        /// Name or URL.
        queue: String,
        size: ChunkSize,
    },
    /// This process. With `instead_of_queue` there is a queue that nothing is sent to.
    Inline { instead_of_queue: bool },
}

/// Setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    #[error("{flag} or {variable} is {given:?}: it is true or false")]
    Switch {
        flag: &'static str,
        variable: &'static str,
        given: String,
    },
    #[error("--page-chunk-size or OCR_PAGE_CHUNK_SIZE is {0:?}: a request asks for 5 to 20 pages")]
    ChunkSize(String),
}

impl Reader {
    /// Decides by flags and variables, and by the queue of the configuration.
    ///
    /// # Errors
    ///
    /// [`SettingError`] for a value that cannot be used, also where nothing would come of it.
    pub fn of(given: &ReadingArgs, configured: Option<&str>) -> Result<Self, SettingError> {
        let inline = switch("--inline-ocr", "ENABLE_INLINE_OCR", given.inline_ocr.as_deref())?;
        let publishes = switch("--ocr-queue", "ENABLE_OCR_QUEUE", given.ocr_queue.as_deref())?;
        let size = match set(given.page_chunk_size.as_deref()) {
            None => ChunkSize::default(),
            Some(text) => {
                let size = text.parse().ok().and_then(ChunkSize::new);
                size.ok_or_else(|| SettingError::ChunkSize(text.to_owned()))?
            }
        };
        let queue = set(given.queue.as_deref())
            .or(configured)
            .filter(|_| publishes.unwrap_or(true));
        if inline.unwrap_or(false) {
            let instead_of_queue = queue.is_some();
            return Ok(Self::Inline { instead_of_queue });
        }
        Ok(queue.map_or(Self::Nobody, |queue| Self::Queue {
            queue: queue.to_owned(),
            size,
        }))
    }
}

/// Value without blanks around it; an empty one counts as not set, as service files clear a variable that way.
fn set(given: Option<&str>) -> Option<&str> {
    given.map(str::trim).filter(|text| !text.is_empty())
}

fn switch(
    flag: &'static str,
    variable: &'static str,
    given: Option<&str>,
) -> Result<Option<bool>, SettingError> {
    let Some(text) = set(given) else {
        return Ok(None);
    };
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(ON) {
        Ok(Some(true))
    } else if is(OFF) {
        Ok(Some(false))
    } else {
        Err(SettingError::Switch {
            flag,
            variable,
            given: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn given(queue: &str, ocr_queue: &str, size: &str, inline: &str) -> ReadingArgs {
        let text = |text: &str| Some(text.to_owned());
        ReadingArgs {
            queue: text(queue),
            ocr_queue: text(ocr_queue),
            page_chunk_size: text(size),
            inline_ocr: text(inline),
            models_dir: None,
        }
    }

    fn queue(name: &str, size: usize) -> Reader {
        Reader::Queue {
            queue: name.to_owned(),
            size: ChunkSize::new(size).unwrap(),
        }
    }

    /// Rows: 133, 134.
    #[test]
    fn a_queue_is_used_where_there_is_one_and_nothing_is_read_here_unless_asked_for() {
        let reader = |arguments: ReadingArgs, configured| Reader::of(&arguments, configured).unwrap();
        assert_eq!(reader(ReadingArgs::default(), None), Reader::Nobody);
        assert_eq!(reader(ReadingArgs::default(), Some("c")), queue("c", 10));
        assert_eq!(reader(given("", "", "", ""), None), Reader::Nobody);
        assert_eq!(reader(given("q", "", "5", ""), Some("c")), queue("q", 5));
        assert_eq!(reader(given("q", "TRUE", "20", "0"), None), queue("q", 20));
        assert_eq!(reader(given("q", "false", "", "off"), Some("c")), Reader::Nobody);
        for (ocr_queue, instead_of_queue) in [("true", true), ("no", false)] {
            assert_eq!(
                reader(given("q", ocr_queue, "", "true"), None),
                Reader::Inline { instead_of_queue }
            );
        }
    }

    /// Rows: 131.
    #[test]
    fn a_request_for_fewer_than_5_or_more_than_20_pages_is_refused() {
        for size in ["4", "21", "0", "-5", "ten", "5.5", "99999999999999999999999"] {
            let refused = Reader::of(&given("q", "", size, ""), None).unwrap_err();
            assert_eq!(refused, SettingError::ChunkSize(size.to_owned()));
        }
        let refused = Reader::of(&given("q", "", "4", ""), None)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("OCR_PAGE_CHUNK_SIZE") && refused.contains("5 to 20"),
            "{refused}"
        );
        let refused = Reader::of(&given("q", "maybe", "", ""), None).unwrap_err();
        assert!(refused.to_string().contains("ENABLE_OCR_QUEUE"), "{refused}");
    }

    proptest! {
        #[test]
        fn exactly_the_sizes_from_5_to_20_are_taken(size in 0usize..60) {
            let reader = Reader::of(&given("q", "", &size.to_string(), ""), None);
            prop_assert_eq!(reader.is_ok(), (5..=20).contains(&size));
        }
    }
}
