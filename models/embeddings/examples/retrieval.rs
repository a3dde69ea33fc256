//! Measures retrieval by dense vectors, by sparse ones and by both, beside BM25, over the paragraphs of a labelled set of PDFs.
//!
//!     cargo run --release -p parkhang-embeddings --example retrieval -- PDFSET/truth
//!
//! The set has sentences of the same meaning in English and both forms of Chinese, with other numbers and names each time. Questions are put in other words;
//! a paragraph answers one if it has a mark of the sentence that does.

#![expect(clippy::expect_used, reason = "a tool for developers, who read the message")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use parkhang_embeddings::{ComputeDevice, DeviceSpec, EmbeddingModels, dense, load, sparse};
use serde_json::Value;

/// A question in English and Chinese, and marks of what answers it in both; the second are empty where nothing does.
struct Question {
    asked: [&'static str; 2],
    marks: [&'static [&'static str]; 2],
}

const fn both(
    asked: [&'static str; 2],
    english: &'static [&'static str],
    chinese: &'static [&'static str],
) -> Question {
    Question {
        asked,
        marks: [english, chinese],
    }
}

const fn english(asked: &'static str, marks: &'static [&'static str]) -> Question {
    both([asked, ""], marks, &[])
}

#[rustfmt::skip]
const QUESTIONS: [Question; 20] = [
    both(["Which deal must be announced because a percentage was passed?", "哪些交易因百分比而须要公告？"], &["discloseable transaction"], &["须予披露", "須予披露"]),
    both(["Is the seller related to the company?", "卖方与公司有没有关系？"], &["third parties independent"], &["第三方"]),
    both(["What do the directors think of the terms?", "董事如何看待协议的条款？"], &["fair and reasonable"], &["公平合理"]),
    both(["Why should investors be careful when trading the shares?", "投资者买卖股份时为何要小心？"], &["exercise caution"], &["审慎行事", "審慎行事"]),
    both(["How will the money that was raised be used?", "集资得来的钱将用在哪里？"], &["net proceeds"], &["所得款项净额", "所得款項淨額"]),
    both(["What has to happen before the deal is done?", "交易完成之前要满足什么？"], &["conditions precedent"], &["先决条件", "先決條件"]),
    both(["Did income grow because of the cost of shipping?", "运费令收入增加了吗？"], &["revenue"], &["录得收益", "錄得收益"]),
    both(["How was the price arrived at?", "价格是怎样定出来的？"], &["independent valuer"], &["独立估值师", "獨立估值師"]),
    both(["When is the rest of the price paid?", "余款如何支付？"], &["deposit of"], &["按金", "訂金", "订金"]),
    both(["What was a Chinese yuan worth?", "用什么汇率折算人民币？"], &["Translated at the rate"], &["汇率换算", "匯率換算"]),
    english("Why did people who live there want a bridge?", &["asked for a crossing"]),
    english("Where does the light on the bridge get its electricity?", &["lamps are fed by panels"]),
    english("Who made a flower bed beside the bridge?", &["garden at the western end"]),
    english("complaint about broken goods in a shipment", &["crates arrived damaged"]),
    english("payment held back until a dispute is over", &["withhold the sum"]),
    english("How were the sediment samples prepared?", &["sieved in triplicate"]),
    english("How was the error of the estimate found?", &["resampling the stations"]),
    english("Does depth matter for what the model leaves unexplained?", &["Residuals show no trend"]),
    english("assurance that a form was filled in honestly", &["particulars given above are true"]),
    english("Why are older measurements of no use for comparison?", &["Earlier surveys did not separate"]),
];

const LANGUAGES: [&str; 2] = ["English", "Chinese"];

/// Constant of reciprocal rank fusion (Cormack et al. 2009).
const FUSION: f64 = 60.0;

fn main() {
    let truth = PathBuf::from(std::env::args_os().nth(1).expect("the folder of the truth"));
    let paragraphs = paragraphs(&truth);
    let device = ComputeDevice::open(&DeviceSpec::cpu(NonZeroUsize::MIN)).expect("a processor");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/embeddings");
    let models = load(&folder, &device).expect("the models of the repository");
    println!("| asked in | of | questions | | BM25 | dense | sparse | dense and sparse | dense and BM25 |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (asked, found) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let texts: Vec<&str> = paragraphs[found].iter().map(String::as_str).collect();
        let index = Index::new(&texts, &models);
        let mut sums = [[0.0; 2]; 5];
        let mut questions = 0;
        for question in &QUESTIONS {
            let answers = |text: &str| question.marks[found].iter().any(|mark| text.contains(mark));
            let relevant: Vec<bool> = texts.iter().map(|text| answers(text)).collect();
            let count = relevant.iter().filter(|relevant| **relevant).count();
            if question.asked[asked].is_empty() || count == 0 {
                continue;
            }
            questions += 1;
            let [bm25, dense, sparse] = index
                .scores(question.asked[asked], &models)
                .map(|scores| ranked(&scores));
            let rankings = [fused(&dense, &sparse), fused(&dense, &bm25)];
            let rankings = [bm25, dense, sparse].into_iter().chain(rankings);
            for (sums, ranking) in sums.iter_mut().zip(rankings) {
                let hits: Vec<bool> = ranking.iter().map(|place| relevant[*place]).collect();
                sums[0] += gain(&hits, count);
                sums[1] += hits.iter().take(20).filter(|hit| **hit).count() as f64 / count.min(20) as f64;
            }
        }
        for (number, measure) in ["nDCG@10", "recall@20"].into_iter().enumerate() {
            let mean = |sums: &[f64; 2]| format!("{:.3}", sums[number] / f64::from(questions));
            let means: Vec<String> = sums.iter().map(mean).collect();
            let [asked, found] = [asked, found].map(|language| LANGUAGES[language]);
            let (count, means) = (texts.len(), means.join(" | "));
            println!("| {asked} | {count} {found} | {questions} | {measure} | {means} |");
        }
    }
}

/// Normalised discounted cumulative gain of the first ten, of so many that answer.
fn gain(hits: &[bool], count: usize) -> f64 {
    let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let found = hits.iter().take(10).enumerate().filter(|(_, hit)| **hit);
    let best: f64 = (0..count.min(10)).map(discount).sum();
    found.map(|(rank, _)| discount(rank)).sum::<f64>() / best
}

/// Places with a score above zero, from the best one.
fn ranked(scores: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).filter(|place| scores[*place] > 0.0).collect();
    places.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
    places
}

fn fused(one: &[usize], other: &[usize]) -> Vec<usize> {
    let count = one.iter().chain(other).max().map_or(0, |last| last + 1);
    let mut scores = vec![0.0; count];
    for ranking in [one, other] {
        for (rank, place) in ranking.iter().enumerate() {
            scores[*place] += 1.0 / (FUSION + rank as f64);
        }
    }
    ranked(&scores)
}

/// Vectors and words of texts.
struct Index {
    dense: Vec<Vec<f32>>,
    sparse: Vec<HashMap<u32, f32>>,
    words: Vec<HashMap<String, f64>>,
    /// Number of texts with each word.
    with: HashMap<String, f64>,
}

impl Index {
    fn new(texts: &[&str], models: &EmbeddingModels) -> Self {
        let words: Vec<HashMap<String, f64>> = texts.iter().map(|text| words(text)).collect();
        let mut with = HashMap::new();
        for word in words.iter().flat_map(HashMap::keys) {
            *with.entry(word.clone()).or_default() += 1.0;
        }
        let sparse = sparse(texts, models).expect("vectors").into_iter();
        Self {
            dense: dense(texts, models).expect("vectors"),
            sparse: sparse.map(|terms| terms.into_iter().collect()).collect(),
            words,
            with,
        }
    }

    /// Scores of all texts by BM25, by dense vectors and by sparse ones.
    fn scores(&self, question: &str, models: &EmbeddingModels) -> [Vec<f64>; 3] {
        let asked = dense(&[question], models).expect("a vector").remove(0);
        let terms = sparse(&[question], models).expect("a vector").remove(0);
        let wanted = words(question);
        let length = |words: &HashMap<String, f64>| words.values().sum::<f64>();
        let mean = self.words.iter().map(length).sum::<f64>() / self.words.len() as f64;
        let bm25 = self.words.iter().map(|words| {
            let long = 1.2 * (0.25 + 0.75 * length(words) / mean);
            let score = |word: &String| {
                let (count, with) = (words.get(word)?, self.with.get(word)?);
                let rare = ((self.words.len() as f64 - with + 0.5) / (with + 0.5)).ln_1p();
                Some(rare * count * 2.2 / (count + long))
            };
            wanted.keys().filter_map(score).sum()
        });
        // One more than the cosine, so that all have a rank.
        let cosine = |vector: &Vec<f32>| {
            let products = asked
                .iter()
                .zip(vector)
                .map(|(one, other)| f64::from(one * other));
            1.0 + products.sum::<f64>()
        };
        let product = |vector: &HashMap<u32, f32>| {
            let of_term = |(term, weight): &(u32, f32)| Some(f64::from(weight * vector.get(term)?));
            terms.iter().filter_map(of_term).sum()
        };
        [
            bm25.collect(),
            self.dense.iter().map(cosine).collect(),
            self.sparse.iter().map(product).collect(),
        ]
    }
}

/// Words in small letters, and pairs of Chinese characters, with their number.
fn words(text: &str) -> HashMap<String, f64> {
    let mut words = HashMap::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric()) {
        if word.contains(is_chinese) {
            let letters: Vec<char> = word.chars().collect();
            for pair in letters.windows(2) {
                *words.entry(pair.iter().collect()).or_default() += 1.0;
            }
        } else if !word.is_empty() {
            *words.entry(word.to_lowercase()).or_default() += 1.0;
        }
    }
    words
}

fn is_chinese(letter: char) -> bool {
    ('\u{3400}'..'\u{a000}').contains(&letter)
}

fn is_tibetan(letter: char) -> bool {
    ('\u{f00}'..'\u{1000}').contains(&letter)
}

/// Different paragraphs in English and in Chinese.
fn paragraphs(truth: &Path) -> [Vec<String>; 2] {
    let mut files: Vec<PathBuf> = Vec::new();
    for document in std::fs::read_dir(truth).expect("the folder of the truth") {
        let document = document.expect("an entry").path();
        let pages = std::fs::read_dir(document).expect("the folder of a document");
        files.extend(pages.map(|page| page.expect("an entry").path()));
    }
    files.sort();
    let (mut seen, mut paragraphs) = (HashSet::new(), [Vec::new(), Vec::new()]);
    for file in files {
        let page: Value = serde_json::from_slice(&std::fs::read(&file).expect("a page")).expect("JSON");
        let all = |name: &str| page[name].as_array().map_or(&[][..], Vec::as_slice);
        let is_text = |block: &&Value| {
            let role = block["role"].as_str();
            matches!(role, Some("text" | "list_item" | "footnote"))
        };
        let blocks = all("blocks").iter().filter(is_text);
        let blocks: BTreeSet<u64> = blocks.filter_map(|block| block["id"].as_u64()).collect();
        for block in blocks {
            let words = all("words").iter().filter(|word| word["block"] == block);
            let words: Vec<&str> = words.filter_map(|word| word["text"].as_str()).collect();
            let chinese = words.iter().any(|word| word.contains(is_chinese));
            let text = words.join(if chinese { "" } else { " " });
            if text.len() > 40 && !text.contains(is_tibetan) && seen.insert(text.clone()) {
                paragraphs[usize::from(chinese)].push(text);
            }
        }
    }
    paragraphs
}
