//! Extents of tokens and objects in the source text of a PDF (ISO 32000-2, 7.2 and 7.3), for copying them unchanged.

/// Deepest nesting of arrays and dictionaries that is followed.
const DEEPEST: usize = 256;

/// Entry of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Key without the slash, with `#xx` decoded.
    pub(crate) key: Vec<u8>,
    /// Key as it is written, with the slash.
    pub(crate) raw_key: &'a [u8],
    /// Value as it is written.
    pub(crate) value: &'a [u8],
}

/// Splits the source of a dictionary, with its brackets, into entries in their order; `None` if it is malformed.
pub(crate) fn entries(dictionary: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut lexer = Lexer::new(dictionary);
    if lexer.next()? != b"<<" {
        return None;
    }
    let mut entries = Vec::new();
    loop {
        let raw_key = lexer.next()?;
        if raw_key == b">>" {
            return Some(entries);
        }
        let name = raw_key.strip_prefix(b"/")?;
        entries.push(Entry {
            key: unescaped(name),
            raw_key,
            value: lexer.object()?,
        });
    }
}

/// Value of a key, as it is written.
pub(crate) fn value<'a>(entries: &[Entry<'a>], key: &str) -> Option<&'a [u8]> {
    // Readers take the last of several entries.
    let mut found = entries.iter().rev();
    found
        .find(|entry| entry.key == key.as_bytes())
        .map(|entry| entry.value)
}

/// Parses a decimal number without sign.
pub(crate) fn number(token: &[u8]) -> Option<u64> {
    let is_number = !token.is_empty() && token.iter().all(u8::is_ascii_digit);
    is_number
        .then(|| std::str::from_utf8(token).ok()?.parse().ok())
        .flatten()
}

/// Parses a reference, `N G R`.
pub(crate) fn reference(object: &[u8]) -> Option<(u32, u16)> {
    let mut lexer = Lexer::new(object);
    let id = number(lexer.next()?)?;
    let generation = number(lexer.next()?)?;
    (lexer.next()? == b"R").then_some(())?;
    Some((u32::try_from(id).ok()?, u16::try_from(generation).ok()?))
}

fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let escaped = match (first, tail) {
            (b'#', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            bytes.push(16 * high + low);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Reader of one token after another.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    position: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Self {
        Self { source, position: 0 }
    }

    /// Starts at an offset of `source`, which may lie beyond its end.
    pub(crate) fn at(source: &'a [u8], position: usize) -> Self {
        let position = position.min(source.len());
        Self { source, position }
    }

    /// Reads a token: a bracket, a string with its delimiters, a name with its slash, a number or a keyword; `None` at the end, and for a
    /// string without one.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let rest = self.source.get(self.position..)?;
        let length = match rest {
            [] => return None,
            [b'<', b'<', ..] | [b'>', b'>', ..] => 2,
            [b'(', ..] => string_length(rest)?,
            [b'<', ..] => rest.iter().position(|byte| *byte == b'>')? + 1,
            [b'[' | b']' | b'{' | b'}' | b')' | b'>', ..] => 1,
            [b'/', name @ ..] => 1 + regular_length(name),
            _ => regular_length(rest),
        };
        self.position += length;
        rest.get(..length)
    }

    /// Reads an object or a reference and returns its extent; `None` if there is none.
    pub(crate) fn object(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let start = self.position;
        let first = self.next()?;
        match first {
            b"<<" | b"[" => self.skip_to_end()?,
            b">>" | b"]" => return None,
            _ if number(first).is_some() => {
                let mut ahead = self.clone();
                let is_reference =
                    ahead.next().is_some_and(|token| number(token).is_some()) && ahead.next() == Some(b"R");
                if is_reference {
                    *self = ahead;
                }
            }
            _ => {}
        }
        self.source.get(start..self.position)
    }

    /// Skips to behind the bracket that closes the one just read.
    fn skip_to_end(&mut self) -> Option<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                b"<<" | b"[" => depth += 1,
                b">>" | b"]" => depth -= 1,
                _ => {}
            }
            if depth > DEEPEST {
                return None;
            }
        }
        Some(())
    }

    pub(crate) fn skip_space(&mut self) {
        while let Some(byte) = self.source.get(self.position) {
            if *byte == b'%' {
                let rest = &self.source[self.position..];
                let comment = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                self.position += comment.unwrap_or(rest.len());
            } else if is_space(*byte) {
                self.position += 1;
            } else {
                return;
            }
        }
    }
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn regular_length(bytes: &[u8]) -> usize {
    let is_delimiter = |byte: &u8| {
        matches!(
            byte,
            b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%'
        )
    };
    let end = bytes
        .iter()
        .position(|byte| is_space(*byte) || is_delimiter(byte));
    end.unwrap_or(bytes.len())
}

/// Length of a literal string, whose parentheses nest unless they are escaped.
fn string_length(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_escaped = false;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => {
                is_escaped = false;
                continue;
            }
            b'\\' => is_escaped = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(source: &[u8]) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = entries(source)?.into_iter();
        Some(pairs.map(|entry| (text(&entry.key), text(entry.value))).collect())
    }

    #[test]
    fn a_dictionary_is_split_into_its_entries() {
        let source = b"<</A 1/B 2 0 R/C[1 0 R 2 0 R]/D<</E(x)>>/F/G /H(\\)>>(>>))%>> /X 1\n/I<3E3E>/J -1.5/K#20L true /M null>>";
        let expected = [
            ("A", "1"),
            ("B", "2 0 R"),
            ("C", "[1 0 R 2 0 R]"),
            ("D", "<</E(x)>>"),
            ("F", "/G"),
            ("H", "(\\)>>(>>))"),
            ("I", "<3E3E>"),
            ("J", "-1.5"),
            ("K L", "true"),
            ("M", "null"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(source).unwrap(), expected);
        assert_eq!(value(&entries(b"<</A 1/A 2>>").unwrap(), "A"), Some(&b"2"[..]));
    }

    #[test]
    fn what_is_not_a_dictionary_is_refused() {
        for source in [
            "", "<<", "<</A>>", "<</A 1", "<<1 2>>", "<</A(>>", "<</A[>>", "[/A 1]",
        ] {
            assert_eq!(pairs(source.as_bytes()), None, "{source}");
        }
        let nested = ["<</A", &"[".repeat(1000), &"]".repeat(1000), ">>"].concat();
        assert_eq!(pairs(nested.as_bytes()), None);
    }

    #[test]
    fn references_are_two_numbers_and_a_letter() {
        assert_eq!(reference(b"12 3 R"), Some((12, 3)));
        for other in ["12 3", "12 R", "-1 0 R", "4294967296 0 R", "/A"] {
            assert_eq!(reference(other.as_bytes()), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_lexer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut lexer = Lexer::new(&bytes);
            while lexer.next().is_some() {}
            let _ = entries(&[b"<<".as_slice(), &bytes, b">>"].concat());
        }
    }
}
