//! Places at which a text may be cut: the ends of sentences, and within a sentence those of words.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::Tokens;
use crate::tibetan::is_shad;

/// Signs that stand before what they enclose.
const OPENING: &[char] = &['(', '[', '{', '“', '‘', '«', '「', '『', '《', '（'];

/// Part of a text and its number of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub range: Range<usize>,
    pub tokens: usize,
}

/// The sentences of a text without the white space around them; those of more than `limit` tokens are cut at words, or where a word alone is
/// longer, at tokens.
pub(super) fn cut(text: &str, limit: usize, tokens: &Tokens<'_>) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for sentence in sentences(text) {
        let found = tokens(&text[sentence.clone()]);
        if found.len() <= limit {
            let tokens = found.len();
            cuts.push(Cut {
                range: sentence,
                tokens,
            });
        } else {
            cut_sentence(text, sentence, &found, limit, tokens, &mut cuts);
        }
    }
    cuts
}

/// Ranges of the sentences of a text: by the rules of Unicode, and Tibetan ones by their shad.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = text
        .split_sentence_bound_indices()
        .map(|(start, sentence)| start + sentence.len())
        .collect();
    let mut after_shad = false;
    for (place, letter) in text.char_indices() {
        if is_shad(letter) {
            after_shad = true;
        } else if after_shad && !letter.is_whitespace() {
            ends.push(place);
            after_shad = false;
        }
    }
    ends.sort_unstable();
    ends.dedup();
    let mut start = 0;
    let mut found = Vec::with_capacity(ends.len());
    for end in ends {
        found.extend(trimmed(text, start..end));
        start = end;
    }
    found
}

/// The range without white space at its ends; `None` if nothing is left.
fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let whole = &text[range.clone()];
    let start = range.start + whole.len() - whole.trim_start().len();
    let end = start + whole.trim().len();
    (start < end).then_some(start..end)
}

/// Cuts a sentence whose tokens are `found`.
fn cut_sentence(
    text: &str,
    sentence: Range<usize>,
    found: &[Range<usize>],
    limit: usize,
    tokens: &Tokens<'_>,
    cuts: &mut Vec<Cut>,
) {
    let whole = &text[sentence.clone()];
    let words = word_starts(whole);
    let (mut start, mut first) = (0, 0);
    while start < whole.len() {
        // A piece alone may have more tokens than in its sentence, where a word is cut in two.
        let mut room = limit;
        let (end, count) = loop {
            let end = end_of(whole, &words, found.get(first + room), start);
            let count = tokens(&whole[start..end]).len();
            if count <= limit || room == 1 {
                break (end, count);
            }
            room -= 1;
        };
        if let Some(range) = trimmed(text, sentence.start + start..sentence.start + end) {
            cuts.push(Cut { range, tokens: count });
        }
        start = end;
        first += found[first..].partition_point(|token| token.start < end);
    }
}

/// End of a piece that begins at `start` and must not reach into the token `next`: before the last word that it has no room for, or
/// at that token where there is no such word, but behind one letter at least.
fn end_of(whole: &str, words: &[usize], next: Option<&Range<usize>>, start: usize) -> usize {
    let Some(next) = next else {
        return whole.len();
    };
    let before = words.partition_point(|&word| word <= next.start);
    if let Some(&word) = words[..before].last()
        && word > start
    {
        return word;
    }
    let one_letter = whole[start..]
        .chars()
        .next()
        .map_or(whole.len(), |letter| start + letter.len_utf8());
    whole.floor_char_boundary(next.start).max(one_letter)
}

/// Places at which words begin. Signs belong to the word before them, as a tsheg does, and those that open something to the one behind.
fn word_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut is_open = false;
    for (place, word) in text.split_word_bound_indices() {
        let opens = word.starts_with(OPENING);
        if (opens || word.starts_with(char::is_alphanumeric)) && !is_open {
            starts.push(place);
        }
        is_open = opens;
    }
    starts
}

/// The end of a text of more than `limit` tokens that has no more and begins with a word; `None` where there is none.
pub(super) fn last_words(text: &str, limit: usize, tokens: &Tokens<'_>) -> Option<Cut> {
    let found = tokens(text);
    let first = found.len().checked_sub(limit)?;
    let least = found.get(first)?.start;
    let words = word_starts(text);
    let later = &words[words.partition_point(|&word| word < least)..];
    later.iter().find_map(|&word| {
        let count = tokens(&text[word..]).len();
        (count <= limit).then_some(Cut {
            range: word..text.len(),
            tokens: count,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::letters;
    use super::*;

    fn pieces(text: &str, limit: usize) -> Vec<&str> {
        let cuts = cut(text, limit, &letters);
        cuts.into_iter().map(|cut| &text[cut.range]).collect()
    }

    #[test]
    fn sentences_end_as_their_script_has_it() {
        assert_eq!(pieces("It rains. It pours!", 99), ["It rains.", "It pours!"]);
        assert_eq!(
            pieces("今日下雨。明日晴！好？", 99),
            ["今日下雨。", "明日晴！", "好？"]
        );
        assert_eq!(pieces("བཀྲ་ཤིས། །བདེ་ལེགས༎ ཤོག", 99), ["བཀྲ་ཤིས། །", "བདེ་ལེགས༎", "ཤོག"]);
        assert_eq!(pieces("  \n ", 99), [""; 0]);
    }

    #[test]
    fn long_sentences_are_cut_at_words_and_long_words_anywhere() {
        assert_eq!(
            pieces("one two, (three) four", 9),
            ["one two,", "(three)", "four"]
        );
        assert_eq!(pieces("བཀྲ་ཤིས་བདེ", 8), ["བཀྲ་ཤིས་", "བདེ"]);
        assert_eq!(pieces("香港交易所", 2), ["香港", "交易", "所"]);
        assert_eq!(pieces("extraordinary", 5), ["extra", "ordin", "ary"]);
    }

    #[test]
    fn last_words_are_whole_ones() {
        let last = |text, limit| last_words(text, limit, &letters).map(|cut| cut.range);
        assert_eq!(last("one two three", 9), Some(4..13));
        assert_eq!(last("one two three", 7), Some(8..13));
        assert_eq!(last("one two three", 4), None);
    }
}
