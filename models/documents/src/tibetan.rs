//! Tibetan pages, from lines of text to blocks. A folio shows its structure by signs and not by space: a yig mgo opens a text or
//! a chapter, a title ends in *bzhugs so*, and verse is told by lines of as many syllables, each before its shad.

use std::ops::Range;

use crate::block::{Block, Role};
use crate::geometry::{Bounds, around, height, median, middle, width};
use crate::lines::is_written_together;
use crate::markers::is_page_number;

/// Line of text of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanLine<'p> {
    pub text: &'p str,
    /// Left, top, right and bottom.
    pub bounds: Bounds,
}

/// Clauses of one length from which they are verse.
const VERSE: usize = 4;
/// Syllables that a line of verse has.
const METRES: std::ops::RangeInclusive<usize> = 5..=21;
/// Lines that a page with a title alone has at most.
const TITLE_PAGE: usize = 2;
/// Clauses that a title consists of at most, behind the sign that opens it.
const TITLE_CLAUSES: usize = 4;
/// Width of a line that stands beside the text, in widths of the widest line.
const NARROW: f32 = 0.25;
/// Ends of titles: *bzhugs so* in its spellings.
const TITLE_ENDS: [&str; 5] = ["བཞུགས་སོ", "བཞུགས་སྷོ", "བཞུགསོ", "བཞུགསྷོ", "བྱ་བ་བཞུགས"];
/// The blocks of a page of Tibetan lines, which come in reading order: what stands in the margins first, page numbers below the text
/// last.
pub fn tibetan_blocks(lines: &[ScanLine<'_>]) -> Vec<Block> {
    let (mut headers, body, footers) = parted(lines);
    let stream = Stream::of(&body);
    let clauses = clauses(&stream.text);
    let blocks = sections(&stream, &clauses, body.len());
    headers.extend(blocks.into_iter().filter_map(|section| stream.block(section)));
    headers.extend(footers);
    headers
}

/// Lines of a page: those above and beside its text, those of the text, and those below it.
fn parted<'p>(lines: &[ScanLine<'p>]) -> (Vec<Block>, Vec<ScanLine<'p>>, Vec<Block>) {
    let widest = lines.iter().map(|line| width(&line.bounds)).fold(0.0, f32::max);
    let wide = lines.iter().filter(|line| width(&line.bounds) >= widest / 2.0);
    let Some(column) = around(wide.map(|line| &line.bounds)) else {
        return (Vec::new(), lines.to_vec(), Vec::new());
    };
    let (mut headers, mut body, mut footers) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        let is_narrow = width(&line.bounds) < NARROW * widest;
        let center = middle(&line.bounds, 0);
        let is_beside = !(column[0]..=column[2]).contains(&center);
        if !is_narrow || !(is_beside || is_page_number(line.text)) {
            body.push(*line);
        } else if middle(&line.bounds, 1) > column[3] {
            footers.push(furniture(Role::Footer, line));
        } else {
            headers.push(furniture(Role::Header, line));
        }
    }
    (headers, body, footers)
}

fn furniture(role: Role, line: &ScanLine<'_>) -> Block {
    Block {
        role,
        bounds: line.bounds,
        lines: vec![line.text.to_owned()],
        words: Vec::new(),
        size: height(&line.bounds),
        table: None,
    }
}

/// Text of a page in one line.
struct Stream<'p> {
    text: String,
    /// Lines with the bytes of the text at which they begin.
    lines: Vec<(usize, ScanLine<'p>)>,
}

impl<'p> Stream<'p> {
    fn of(lines: &[ScanLine<'p>]) -> Self {
        let mut text = String::new();
        let mut starts = Vec::with_capacity(lines.len());
        for line in lines {
            let (last, first) = (text.chars().next_back(), line.text.trim().chars().next());
            if let (Some(last), Some(first)) = (last, first)
                && !(is_written_together(last) && is_written_together(first))
            {
                text.push(' ');
            }
            starts.push((text.len(), *line));
            text.push_str(line.text.trim());
        }
        Self { text, lines: starts }
    }

    /// Lines that a part of the text stands on, with the bytes of it that each has.
    fn lines_of(&self, range: &Range<usize>) -> Vec<(Range<usize>, &ScanLine<'p>)> {
        let ends = self
            .lines
            .iter()
            .skip(1)
            .map(|line| line.0)
            .chain([self.text.len()]);
        let parts = self.lines.iter().zip(ends).map(|((start, line), end)| {
            let part = range.start.max(*start)..range.end.min(end);
            (part, line)
        });
        parts.filter(|(part, _)| part.start < part.end).collect()
    }

    /// The block of a section; `None` for one without text.
    fn block(&self, section: Section) -> Option<Block> {
        let of_page = self.lines_of(&section.range);
        let of_page: Vec<_> = of_page
            .into_iter()
            .filter(|(part, _)| !self.text[part.clone()].trim().is_empty())
            .collect();
        let bounds = around(of_page.iter().map(|(_, line)| &line.bounds))?;
        let size = median(of_page.iter().map(|(_, line)| height(&line.bounds)).collect())?;
        let lines = match section.verses {
            Some(verses) => verses,
            None => of_page.into_iter().map(|(part, _)| part).collect(),
        };
        let text = |part: Range<usize>| self.text[part].trim().to_owned();
        Some(Block {
            role: section.role,
            bounds,
            lines: lines
                .into_iter()
                .map(text)
                .filter(|line| !line.is_empty())
                .collect(),
            words: Vec::new(),
            size,
            table: None,
        })
    }
}

/// Part of the text of a page that becomes a block.
#[derive(Debug, Clone, PartialEq)]
struct Section {
    role: Role,
    range: Range<usize>,
    /// Lines of verse; `None` in prose, whose lines are those of the page.
    verses: Option<Vec<Range<usize>>>,
}

/// Part of a text up to its shad, with the signs that open it.
#[derive(Debug, Clone, PartialEq)]
struct Clause {
    range: Range<usize>,
    syllables: usize,
    /// True if a sign that opens a text or a section stands before it.
    is_opened: bool,
    /// True if a shad closes it.
    is_closed: bool,
}

/// The clauses of a text, which together are all of it.
fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let (mut start, mut has_syllable, mut is_closed) = (0, false, false);
    for (place, letter) in text.char_indices() {
        let is_over = is_closed && !is_shad(letter) && !letter.is_whitespace();
        if has_syllable && (is_over || opens(letter)) {
            clauses.push(Clause::of(text, start..place));
            (start, has_syllable, is_closed) = (place, false, false);
        }
        has_syllable |= is_letter(letter);
        is_closed |= has_syllable && is_shad(letter);
    }
    if start < text.len() {
        clauses.push(Clause::of(text, start..text.len()));
    }
    clauses
}

impl Clause {
    fn of(text: &str, range: Range<usize>) -> Self {
        let clause = &text[range.clone()];
        let (before, words) = clause.split_at(clause.find(is_letter).unwrap_or(clause.len()));
        let syllables = words.split(|letter| !is_letter(letter));
        Self {
            syllables: syllables.filter(|syllable| !syllable.is_empty()).count(),
            is_opened: before.contains(opens),
            is_closed: words.contains(is_shad),
            range,
        }
    }
}

/// The sections of a text of `lines` lines.
fn sections(stream: &Stream<'_>, clauses: &[Clause], lines: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut place = 0;
    while place < clauses.len() {
        let clause = &clauses[place];
        if let Some(end) = title(&stream.text, clauses, place, lines) {
            let range = clause.range.start..clauses[end - 1].range.end;
            // A title that has the page for itself is that of the text, and others are of its parts.
            let on_lines = stream.lines_of(&range).len();
            let role = if lines <= TITLE_PAGE && 2 * on_lines >= lines {
                Role::Title
            } else {
                Role::Heading
            };
            sections.push(Section {
                role,
                range,
                verses: None,
            });
            place = end;
        } else if let Some(end) = verse(clauses, place) {
            let verses = &clauses[place..end];
            sections.push(Section {
                role: Role::Verse,
                range: clause.range.start..clauses[end - 1].range.end,
                verses: Some(verses.iter().map(|clause| clause.range.clone()).collect()),
            });
            place = end;
        } else {
            match sections.last_mut() {
                Some(last) if last.role == Role::Text && !clause.is_opened => {
                    last.range.end = clause.range.end
                }
                _ => sections.push(Section {
                    role: Role::Text,
                    range: clause.range.clone(),
                    verses: None,
                }),
            }
            place += 1;
        }
    }
    sections
}

/// End of the title that begins with a clause: behind a sign that opens a text, or at the top of a page with hardly anything else.
fn title(text: &str, clauses: &[Clause], place: usize, lines: usize) -> Option<usize> {
    if !clauses[place].is_opened && (place > 0 || lines > TITLE_PAGE) {
        return None;
    }
    let is_end = |clause: &Clause| {
        let bare = text[clause.range.clone()].trim_end_matches(|letter| !is_letter(letter));
        TITLE_ENDS.iter().any(|end| bare.ends_with(end))
    };
    let most = clauses.len().min(place + TITLE_CLAUSES);
    let end = (place..most).find(|&end| is_end(&clauses[end]))?;
    let opens_another = clauses[place + 1..=end].iter().any(|clause| clause.is_opened);
    (!opens_another).then_some(end + 1)
}

/// End of the verse that begins with a clause: at least [`VERSE`] clauses have one length, and among them are some that are a
/// syllable longer or shorter, which misreadings make. At the ends of the page a line of verse may be cut.
fn verse(clauses: &[Clause], place: usize) -> Option<usize> {
    let is_cut_first = place == 0 && clauses.len() > 1 && clauses[1].syllables > clauses[0].syllables;
    let first = place + usize::from(is_cut_first);
    let metre = clauses.get(first)?.syllables;
    if !METRES.contains(&metre) {
        return None;
    }
    let fits = |clause: &Clause| clause.syllables == metre && clause.is_closed;
    let is_near = |clause: &Clause| clause.syllables.abs_diff(metre) <= 1 && clause.is_closed;
    let (mut end, mut exact) = (first, 0);
    while let Some(clause) = clauses.get(end) {
        let goes_on = clauses.get(end + 1).is_none_or(&fits);
        if clause.is_opened && end > first || !(fits(clause) || exact > 1 && is_near(clause) && goes_on) {
            break;
        }
        exact += usize::from(fits(clause));
        end += 1;
    }
    let is_cut_last = end + 1 == clauses.len() && !clauses[end].is_closed && clauses[end].syllables <= metre;
    (exact >= VERSE).then_some(end + usize::from(is_cut_last))
}

/// True for the signs that close a clause.
pub(crate) fn is_shad(letter: char) -> bool {
    matches!(letter, '\u{0F0D}'..='\u{0F12}' | '\u{0F14}')
}

/// True for the signs that open a text or a section: yig mgo and sbrul shad.
pub(crate) fn opens(letter: char) -> bool {
    matches!(letter, '\u{0F01}'..='\u{0F0A}' | '\u{0FD0}'..='\u{0FD4}')
}

/// True for what syllables consist of.
fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric()
        || matches!(letter, '\u{0F39}' | '\u{0F71}'..='\u{0F87}' | '\u{0F8D}'..='\u{0FBC}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines<'t>(texts: &[&'t str]) -> Vec<ScanLine<'t>> {
        let line = |(place, text): (usize, &&'t str)| ScanLine {
            text,
            bounds: [100.0, 50.0 * place as f32, 900.0, 50.0 * place as f32 + 40.0],
        };
        texts.iter().enumerate().map(line).collect()
    }

    fn found(texts: &[&str]) -> Vec<(Role, Vec<String>)> {
        let blocks = tibetan_blocks(&lines(texts)).into_iter();
        blocks.map(|block| (block.role, block.lines)).collect()
    }

    #[test]
    fn a_title_has_its_page_or_stands_behind_a_yig_mgo() {
        let title = "༄༅། །རྫོགས་པ་ཆེན་པོའི་རྒྱུད་ཅེས་བྱ་བ་བཞུགས་སྷོ།";
        assert_eq!(found(&[title]), [(Role::Title, vec![title.to_owned()])]);
        let page = found(&[
            "སེམས་ཅན་ཐམས་ཅད་བདེ་བར་གྱུར་ཅིག ལྷ་རྣམས་དེར་བཞུགས་སོ། །",
            "མི་རྣམས་ཀྱང་ངོ་། ༄༅། །དཔལ་གྱི་བསྟོད་པ་བཞུགས་སོ། །འདི་སྐད་བདག་གིས་",
            "ཐོས་པ་དུས་གཅིག་ན། སངས་རྒྱས་བཅོམ་ལྡན་འདས་བཞུགས་ཏེ།",
        ]);
        let roles: Vec<Role> = page.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, [Role::Text, Role::Heading, Role::Text]);
        assert_eq!(page[1].1, ["༄༅། །དཔལ་གྱི་བསྟོད་པ་བཞུགས་སོ། །"]);
        assert_eq!(page[2].1[0], "འདི་སྐད་བདག་གིས་");
    }

    #[test]
    fn a_yig_mgo_begins_a_text_without_a_shad_before_it() {
        let page = found(&["༄༅། །དཀར་ཆག་༄༅། །འདི་སྐད་བདག་གིས་ཐོས་པ། ལྷ་ཞེས་བྱ་བ་བཞུགས་ཏེ།"]);
        let lines: Vec<&str> = page.iter().map(|(_, lines)| lines[0].as_str()).collect();
        assert_eq!(
            lines,
            ["༄༅། །དཀར་ཆག་", "༄༅། །འདི་སྐད་བདག་གིས་ཐོས་པ། ལྷ་ཞེས་བྱ་བ་བཞུགས་ཏེ།"]
        );
        assert!(page.iter().all(|(role, _)| *role == Role::Text));
    }

    #[test]
    fn verse_is_told_by_its_syllables_over_the_ends_of_lines() {
        let page = found(&[
            "འཇིགས་བྱེད། །ཀུན་ཏུ་འགྲོ་བའི་དོན་ཡོད་བགྲོད། །དེབ་ཞིན་གཤེགས་",
            "པའི་ཡིད་ལྟར་མགྱོགས། །རྒྱལ་བྲག་རྒྱལ་རྣམ་པར་རྒྱལ་བ། །འཁོར་ལོ་བསྒྱུར་བ་སྟོབས་པོ་ཆེ། །ཚོགས་ཀྱི་",
            "སློབ་དཔོན་ཚོགས་ཀྱི་མཆོག །ཞེས་གསུངས་སོ། །དེ་ནས་རྒྱལ་པོ་དེས་བློན་པོ་ལ་སྨྲས་པ།",
        ]);
        let roles: Vec<Role> = page.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, [Role::Verse, Role::Text]);
        assert_eq!(page[0].1.len(), 6);
        assert_eq!(page[0].1[2], "དེབ་ཞིན་གཤེགས་པའི་ཡིད་ལྟར་མགྱོགས། །");
        assert_eq!(page[1].1, ["ཞེས་གསུངས་སོ། །དེ་ནས་རྒྱལ་པོ་དེས་བློན་པོ་ལ་སྨྲས་པ།"]);
    }

    #[test]
    fn what_stands_in_the_margin_is_no_text() {
        let mut page = lines(&["བཅོམ་ལྡན་འདས་ཀྱིས་བཀའ་སྩལ་པ།", "དེ་ནས་རབ་འབྱོར་གྱིས་གསོལ་པ།", "༡༢"]);
        page.push(ScanLine {
            text: "ཀ གཉིས།",
            bounds: [0.0, 20.0, 40.0, 90.0],
        });
        page[2].bounds[2] = 140.0;
        let roles: Vec<Role> = tibetan_blocks(&page).iter().map(|block| block.role).collect();
        assert_eq!(roles, [Role::Header, Role::Text, Role::Footer]);
        assert_eq!(tibetan_blocks(&[]), []);
    }

    proptest! {
        #[test]
        fn no_letter_is_lost(texts in prop::collection::vec("(ཀ|བཀྲ|ལེགས|བཞུགས་སོ|།|༎| |་|༄༅|༈|abc|12){0,30}", 0..8)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let bare = |text: &str| -> String { text.split_whitespace().collect() };
            let before: String = texts.iter().map(|text| bare(text)).collect();
            let after: String = found(&texts).iter().flat_map(|(_, lines)| lines).map(|line| bare(line)).collect();
            prop_assert_eq!(after, before);
        }
    }
}
