//! Configuration of a job: its keys, their defaults and their limits.

use parkhang_algorithms::{Algorithms, Combination};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::adjustment::ADJUSTABLE;
use super::amount::Amount;
use super::inputs::{Inputs, MOST_INPUTS};
use super::named_model::NamedModels;
use super::suggestion::nearest;
use super::trusts::Trusts;

mod choices;
mod limits;

pub use choices::{
    Artifacts, Decoder, LayoutName, LineMode, OnItemError, ReadPages, RetryScope, SchedulingOrder,
    TextEncoding, Verify,
};

/// Reason for which a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{0:?} is not key=value")]
    NotAPair(String),
    #[error("there is no key {key}{meant}", key = .0, meant = meant(.0))]
    Unknown(String),
    #[error("{0} holds for as long as the job is there")]
    Fixed(String),
    /// The key decides about results.
    #[error(
        "{0} cannot be changed while the job runs: pause the job (job pause), then change it (job update)"
    )]
    Decides(String),
    #[error("there is no limit {key}; limits are {limits}", key = .0, limits = ADJUSTABLE.join(", "))]
    NotALimit(String),
    #[error("{key} must be {expected}, not {actual}")]
    Unfit {
        key: String,
        expected: String,
        actual: String,
    },
}

/// Hint at the known key that is nearest to an unknown one, for the end of a sentence.
fn meant(unknown: &str) -> String {
    let keys = JobConfig::default().keys();
    let nearest = nearest(unknown, keys.keys().map(String::as_str), 2);
    nearest.map_or_else(String::new, |key| format!("; did you mean {key}?"))
}

/// Settings of a job (`jobs.config`). Keys left out take the default, which is that of the second generation of algorithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobConfig {
    /// Generation of the algorithms that find, cut and prepare lines.
    pub generation: Algorithms,
    /// Start value of the line mask's dilation, in line heights.
    pub k_factor: f32,
    /// Dilation shrinks until a line image is at most this many line heights tall.
    pub bbox_tolerance: f32,
    /// Join segments that stand on one row.
    pub merge_lines: bool,
    /// Read columns of text one after the other, before segments are joined.
    pub split_columns: bool,
    /// Straighten curved pages with a thin-plate spline where a line needs it.
    pub use_tps: bool,
    /// Encoding of the text of results.
    pub encoding: TextEncoding,
    /// Network that finds lines.
    pub line_mode: LineMode,
    /// Decoder of the text of lines.
    pub decoder: Decoder,
    /// Number of hypotheses that the beam decoder keeps.
    pub beam_width: usize,
    /// Let the model's own language model help the beam decoder, if it has one.
    pub language_model: bool,
    /// Share of the usual confidence of a page's lines below which a line is left out; 0 keeps all.
    pub min_confidence: f32,
    /// Pages whose pictures are read where a file holds text beside them.
    pub read_pages: ReadPages,
    /// Pages whose own text seems good and is compared with their picture.
    pub verify: Verify,
    /// Longest chunk of a document, in tokens of the model that embeds it.
    pub chunk_max_tokens: usize,
    /// Tokens below which a chunk goes on under the next heading.
    pub chunk_min_tokens: usize,
    /// Tokens that a chunk repeats from the end of the one before at most; 0 is none.
    pub chunk_overlap: usize,
    /// Jobs whose readings are combined, the preferred one first.
    pub inputs: Inputs,
    /// Way to decide between them.
    pub how: Combination,
    /// Trusts in them, learnt from pages with a known text.
    pub trust: Trusts,
    /// Models that stages are to be run with; nodes that have not loaded one are given nothing of the job at its stage.
    pub models: NamedModels,

    /// Consequence of a failed page.
    pub on_item_error: OnItemError,
    /// Share of failed pages above which the stage fails, whatever `on_item_error` says.
    pub max_item_error_rate: f32,
    /// Counter of failed tries that ends a task.
    pub retry_scope: RetryScope,
    /// Pages per checkpoint part, the most that a killed node costs.
    pub checkpoint_pages: usize,

    /// Items of a stage in work at once; 0 takes what the node offers.
    pub workers: usize,
    /// Order in which the items of a stage are started.
    pub order: SchedulingOrder,
    /// Cost that a place in the volume outweighs under an order by cost; 0 is none.
    pub ageing: f64,
    /// Items submitted beside those in work; 0 lets the stage choose.
    pub max_queue: usize,
    /// Failed items that do not stop a stage; 0 is any number.
    pub error_budget: usize,
    /// Seconds between reports of a stage's progress.
    pub diagnostics_interval_s: f64,
    /// Seconds that an item may take; 0 is no limit.
    pub timeout_s: f64,
    /// Retries of an item within one attempt, after retryable errors only.
    pub retries: u32,
    /// Seconds before the first retry; the delay doubles with each one.
    pub retry_backoff_s: f64,
    /// Pages of each volume to read; 0 is all.
    pub limit: usize,
    /// Artifacts to keep. Left out where it is the default, so that nodes of builds before this key take the job.
    #[serde(skip_serializing_if = "Artifacts::is_default")]
    pub artifacts: Artifacts,
    /// Layout of the artifacts in their store.
    pub layout: LayoutName,
    /// Note beside each table, in a file of its own, what it was made from.
    pub fingerprint_files: bool,
    /// Recompute pages whose results still stand.
    pub force: bool,

    /// Priority of the job: a higher one is given free slots first.
    pub priority: i32,
    /// Volumes of the job in work at once; 0 is any number.
    pub max_running: usize,
    /// Volumes of the job in work at once at each stage; 0 is any number.
    pub max_running_per_stage: usize,
    /// Failed tries after which a volume has failed for good.
    pub max_attempts: i32,
    /// Amount of money that the job may spend at services; 0 is any.
    pub budget: Amount,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            generation: Algorithms::Gen2,
            k_factor: 1.7,
            bbox_tolerance: 3.0,
            merge_lines: true,
            split_columns: true,
            use_tps: true,
            encoding: TextEncoding::Unicode,
            line_mode: LineMode::Line,
            decoder: Decoder::Beam,
            beam_width: 8,
            language_model: true,
            min_confidence: 0.4,
            read_pages: ReadPages::Broken,
            verify: Verify::Sample,
            chunk_max_tokens: 256,
            chunk_min_tokens: 48,
            chunk_overlap: 32,
            inputs: Inputs::default(),
            how: Combination::default(),
            trust: Trusts::default(),
            models: NamedModels::default(),
            on_item_error: OnItemError::Skip,
            max_item_error_rate: 1.0,
            retry_scope: RetryScope::Task,
            checkpoint_pages: 16,
            workers: 0,
            order: SchedulingOrder::Fifo,
            ageing: 0.0,
            max_queue: 0,
            error_budget: 0,
            diagnostics_interval_s: 30.0,
            timeout_s: 90.0,
            retries: 2,
            retry_backoff_s: 1.0,
            limit: 0,
            artifacts: Artifacts::Pictures,
            layout: LayoutName::BdrcV2,
            fingerprint_files: false,
            force: false,
            priority: 0,
            max_running: 0,
            max_running_per_stage: 0,
            max_attempts: 3,
            budget: Amount::ZERO,
        }
    }
}

impl JobConfig {
    /// Key of the generation of algorithms.
    pub const GENERATION: &'static str = "generation";
    /// Keys whose usual value depends on the generation.
    pub const BY_GENERATION: [&'static str; 8] = [
        "k_factor",
        "bbox_tolerance",
        "merge_lines",
        "split_columns",
        "use_tps",
        "beam_width",
        "language_model",
        "min_confidence",
    ];

    /// Usual settings of a job of a generation.
    pub fn defaults_for(generation: Algorithms) -> Self {
        match generation {
            Algorithms::Gen2 => Self::default(),
            Algorithms::Gen1 => Self {
                generation,
                k_factor: 2.5,
                bbox_tolerance: 4.0,
                merge_lines: false,
                split_columns: false,
                use_tps: false,
                beam_width: 100,
                language_model: false,
                min_confidence: 0.0,
                ..Self::default()
            },
        }
    }

    /// Applies `key=value` pairs in order, the last one winning. A value is JSON where it parses as JSON, else a string.
    ///
    /// Another generation is applied before all other keys and brings its usual values with it, so that its place among the
    /// pairs does not matter.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for text that is no pair, for an unknown key, and for a value that the key does not take.
    pub fn with_overrides<'a>(self, pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let pair = |pair: &'a str| {
            let (key, text) = pair.split_once('=')?;
            Some((key.trim(), text))
        };
        let pairs: Vec<(&str, &str)> = pairs
            .into_iter()
            .map(|given| pair(given).ok_or_else(|| ConfigError::NotAPair(given.to_owned())))
            .collect::<Result<_, _>>()?;
        let (generation, others): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(key, _)| *key == Self::GENERATION);
        let mut config = self;
        let before = config.generation;
        for (key, text) in generation {
            config = config.with(key, text)?;
        }
        if config.generation != before {
            config = config.with_usual_values();
        }
        for (key, text) in others {
            config = config.with(key, text)?;
        }
        config.validated()
    }

    /// The same settings with the usual values of the keys that depend on the generation.
    fn with_usual_values(self) -> Self {
        let Self {
            generation,
            k_factor,
            bbox_tolerance,
            merge_lines,
            split_columns,
            use_tps,
            beam_width,
            language_model,
            min_confidence,
            ..
        } = Self::defaults_for(self.generation);
        Self {
            generation,
            k_factor,
            bbox_tolerance,
            merge_lines,
            split_columns,
            use_tps,
            beam_width,
            language_model,
            min_confidence,
            ..self
        }
    }

    /// The same settings with another value of one key.
    fn with(self, key: &str, text: &str) -> Result<Self, ConfigError> {
        // Through the serialised form and back, so that the type of each key decides which values it takes.
        let keys = self.keys();
        let Some(before) = keys.get(key) else {
            return Err(ConfigError::Unknown(key.to_owned()));
        };
        let taken = |value: Value| {
            let mut keys = keys.clone();
            keys.insert(key.to_owned(), value);
            serde_json::from_value::<Self>(Value::Object(keys))
        };
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        taken(value).map_err(|_| ConfigError::Unfit {
            key: key.to_owned(),
            expected: expected(before, taken),
            actual: text.to_owned(),
        })
    }

    /// All keys with their values, numbers by the shortest decimals that mean them.
    pub fn keys(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut keys)) => {
                keys.values_mut().for_each(shorten);
                keys.entry("artifacts")
                    .or_insert_with(|| json!(Artifacts::default()));
                keys
            }
            _ => Map::new(),
        }
    }

    /// True if a volume has the same results in a job of the other configuration, on nodes with the same models.
    pub fn reads_like(&self, other: &Self) -> bool {
        self.fingerprint_config() == other.fingerprint_config()
    }

    /// Keys that decide about results and their place, with their values.
    fn fingerprint_config(&self) -> Map<String, Value> {
        let mut keys = self.keys();
        // Beside the adjustable keys, these change the course of the work and not its results.
        let others =
            ADJUSTABLE
                .into_iter()
                .chain(["order", "ageing", "retry_scope", "fingerprint_files", "force"]);
        others.for_each(|key| drop(keys.remove(key)));
        keys
    }
}

/// Description of the values that a key takes: `value` is one of them, and `taken` tries others.
fn expected(value: &Value, taken: impl Fn(Value) -> serde_json::Result<JobConfig>) -> String {
    match value {
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) if number.is_f64() => "a number".to_owned(),
        Value::Number(_) if taken((-1).into()).is_ok() => "a whole number".to_owned(),
        Value::Number(_) => "a whole number, 0 or more".to_owned(),
        Value::Array(_) if taken("a=b".into()).is_ok() => "STAGE=NAME, or several of them".to_owned(),
        Value::Array(_) if taken("".into()).is_err() => "what node eval --trust prints".to_owned(),
        Value::Array(_) => format!(
            "names of jobs, and after the first one archive:gv or archive:ocr_qwen_v1, each once, {MOST_INPUTS} at most"
        ),
        _ => {
            // The names of the choices are in the message of serde that refuses another one.
            let refusal = taken("".into()).err().map(|error| error.to_string());
            let choices = refusal.as_deref().and_then(|text| text.split_once("expected "));
            choices.map_or("another value".to_owned(), |(_, choices)| {
                choices.replace('`', "")
            })
        }
    }
}

/// Replaces a number that came of 32 bits by the one with the fewest digits that means the same: 1.7 for 1.7000000476837158.
fn shorten(value: &mut Value) {
    let single = value.as_f64().filter(|_| value.is_f64()).map(|wide| wide as f32);
    if let Some(single) = single.filter(|single| value.as_f64() == Some(f64::from(*single)))
        && let Ok(short) = single.to_string().parse::<f64>()
    {
        *value = Value::from(short);
    }
}

#[cfg(test)]
mod tests;
