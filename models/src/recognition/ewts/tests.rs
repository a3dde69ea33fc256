use proptest::prelude::*;
use proptest::sample::select;

use super::{to_unicode, to_unicode_exact, to_wylie};

#[test]
fn published_examples_convert_to_unicode() {
    for (wylie, unicode) in [
        ("bkra shis bde legs/", "བཀྲ་ཤིས་བདེ་ལེགས།"),
        ("oM ma Ni pad+me hU~M`/", "ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྂ།"),
        ("g.yag", "གཡག"),
        ("gyag", "གྱག"),
        ("rdzogs pa chen po/ /", "རྫོགས་པ་ཆེན་པོ། །"),
        ("@#/ /bzhugs so//", "༄༅། །བཞུགས་སོ༎"),
        ("1959 lor", "༡༩༥༩་ལོར"),
        ("k+Sha", "ཀྵ"),
        ("ha^", "ཧ༹"),
        ("rkka", "རཀཀ"),
        ("b la", "བ་ལ"),
        ("snga' G", "སྔའ་ག"),
        ("[abc] ka", "abc་ཀ"),
        (r"\u0f0bka", "་ཀ"),
        ("gangs  ri", "གངས་རི"),
        ("Ma la", "མ་ལ"),
        ("M", "མ"),
        (r"ka\ud800\U00110000\u0F40\", "ཀ"),
    ] {
        assert_eq!(to_unicode(wylie), unicode, "{wylie:?}");
    }
}

#[test]
fn published_examples_convert_to_wylie() {
    for (unicode, wylie) in [
        ("དགས", "dgas"),
        ("དངས", "dangs"),
        ("གཡག", "g.yag"),
        ("ཨེ་མ་ཧོ", "e ma ho"),
        ("༈ ཀ", "!_ka"),
        ("abc ཀ", "[abc ]ka"),
        ("ཀ། ཁ", "ka/_kha"),
        ("བརླབས", "brlabs"),
        ("ཀྲྀ", "kr-i"),
        ("ྲྀ", r"\u0fb2\u0f80"),
        ("རཀཀ", "rakaka"),
        ("ཧ༹", "h^a"),
    ] {
        assert_eq!(to_wylie(unicode), wylie, "{unicode:?}");
    }
}

#[test]
fn only_the_exact_reading_reaches_the_marks_below() {
    assert_eq!(to_unicode_exact("ka~X kaX"), "ཀ༵་ཀ༷");
    assert_eq!(to_unicode("ka~X"), "ཀ~྾");
}

/// A root stack and the prefixes that it takes.
fn root() -> impl Strategy<Value = (&'static str, &'static [&'static str])> {
    select(vec![
        ("ཀ", &["ད", "བ"][..]),
        ("ཁ", &["མ", "འ"]),
        ("ག", &["ད", "བ", "མ", "འ"]),
        ("ཅ", &["ག", "བ"]),
        ("ཡ", &["ག"]),
        ("ལྷ", &[]),
        ("ཨ", &[]),
        ("ཀྱ", &["ད", "བ"]),
        ("གྲ", &["ད", "བ", "མ", "འ"]),
        ("རྐྱ", &["བ"]),
        ("སྒྲ", &["བ"]),
        ("རྩྭ", &[]),
        ("སྐ", &["བ"]),
        ("ཕྱྭ", &[]),
        ("ཟླ", &["བ"]),
        ("ཤ", &["ག", "བ"]),
    ])
}

prop_compose! {
    /// A syllable by the rules of Tibetan spelling.
    fn syllable()(
        (root, prefixes) in root(),
        prefix in any::<prop::sample::Index>(),
        vowel in select(vec!["", "ི", "ུ", "ེ", "ོ"]),
        suffix in select(vec!["", "ག", "ང", "ད", "ན", "བ", "མ", "འ", "ར", "ལ", "ས", "གས", "ངས", "བས", "མས"]),
    ) -> String {
        let choices = [&[""][..], prefixes].concat();
        format!("{}{root}{vowel}{suffix}", choices[prefix.index(choices.len())])
    }
}

proptest! {
    #[test]
    fn spelled_syllables_survive_both_ways(syllables in prop::collection::vec(syllable(), 1..8)) {
        let tibetan = format!("༄༅། །{}།", syllables.join("་"));
        let wylie = to_wylie(&tibetan);
        prop_assert_eq!(to_unicode_exact(&wylie), tibetan.as_str());
        prop_assert_eq!(to_unicode(&wylie), tibetan.as_str());
        prop_assert_eq!(to_wylie(&to_unicode_exact(&wylie)), wylie);
    }

    #[test]
    fn any_stack_survives_in_exact_wylie(
        top in select(('\u{f40}'..='\u{f42}').chain('\u{f44}'..='\u{f47}').chain('\u{f58}'..='\u{f5b}').collect::<Vec<_>>()),
        below in prop::collection::vec(select(('\u{f90}'..='\u{f92}').chain('\u{fb1}'..='\u{fb4}').collect::<Vec<_>>()), 0..3),
        vowel in select(vec!["", "\u{f71}", "\u{f72}", "\u{f71}\u{f72}", "\u{f80}", "\u{f7b}"]),
        closing in select(vec!["", "\u{f7e}", "\u{f82}", "\u{f7f}", "\u{f84}", "\u{f35}", "\u{f85}"]),
    ) {
        let stack: String = format!("{top}{}{vowel}{closing}", below.iter().collect::<String>());
        prop_assert_eq!(to_unicode_exact(&to_wylie(&stack)), stack);
    }

    #[test]
    fn any_text_converts(text in "[ -~\u{f00}-\u{fff}\\\\\\[\\]\n\u{feff}é]{0,40}") {
        let _ = (to_unicode(&text), to_unicode_exact(&text), to_wylie(&text));
    }
}

#[test]
fn fuzz_wylie() {
    let corpus = [
        "bkra shis bde legs/",
        "oM ma Ni pad+me hU~M`/ /",
        "'jam dpal g.yang [sic] \\u0f40",
        "བཀྲ་ཤིས། ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྂ།",
    ];
    parkhang_fuzz::Fuzz::of_texts("wylie", corpus).feeds_texts(|text| {
        let _ = (
            to_unicode(text),
            to_wylie(&to_unicode_exact(text)),
            to_wylie(text),
        );
    });
}
