//! What is indexed of a volume, and how: one document of the index for each page, and one for each chunk.

use tantivy::directory::RamDirectory;
use tantivy::schema::{
    Field, INDEXED, IndexRecordOption, STORED, STRING, Schema, SchemaBuilder, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{PreTokenizedString, Token as EngineToken};
use tantivy::{Index, TantivyDocument};

use crate::bundle;
use crate::error::SearchError;
use crate::token::{Token, line_tokens, tokens};
use crate::vectors;

/// Memory for the terms of a volume before they are sorted, in bytes; a volume of 2,000 pages takes a tenth of it.
const ARENA: usize = 200 << 20;

/// Text of a volume as it is searched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VolumeText {
    /// Name of the volume.
    pub volume: String,
    pub pages: Vec<PageText>,
    /// Chunks of its document, where it is one.
    pub chunks: Vec<ChunkText>,
    /// Identifies the model that embedded the chunks.
    pub model: String,
}

/// Chunk of a document with its vectors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChunkText {
    /// Number of the page that it begins on, from 1.
    pub page: u32,
    /// BCP 47 tag of its language.
    pub language: String,
    pub text: String,
    /// Direction of its meaning; none where it was not embedded.
    pub dense: Vec<f32>,
    /// Terms with their weights.
    pub terms: Vec<(u32, f32)>,
}

/// Text of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageText {
    /// Number of the page, from 1.
    pub number: u32,
    /// Name of its image.
    pub name: String,
    /// BCP 47 tag of its language.
    pub language: String,
    /// Titles and headings on the page.
    pub headings: Vec<String>,
    /// Lines in reading order, as they are numbered in exports and in the viewer.
    pub lines: Vec<String>,
}

/// Fields of the index.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    pub schema: Schema,
    pub volume: Field,
    pub number: Field,
    pub name: Field,
    pub language: Field,
    /// Tokens of the lines.
    pub text: Field,
    /// Tokens of the headings.
    pub title: Field,
    /// The lines as they are, one value each.
    pub lines: Field,
    /// Whether a document of the index is a page or a chunk.
    pub kind: Field,
    /// Terms of a chunk, as often as their weights say.
    pub terms: Field,
    /// Text of a chunk.
    pub passage: Field,
}

/// Values of the field `kind`.
pub(crate) const PAGE: &str = "page";
pub(crate) const CHUNK: &str = "chunk";

/// Number of times that a term of the weight 1 stands in the index.
const TIMES: f32 = 16.0;
/// Largest number of times for any weight.
const MOST_TIMES: f32 = 255.0;

impl Fields {
    pub(crate) fn new() -> Self {
        let mut schema = SchemaBuilder::new();
        // Texts are divided into tokens before the index sees them.
        let tokens = TextOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer("raw")
                .set_index_option(IndexRecordOption::WithFreqsAndPositions),
        );
        let weights = TextOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer("raw")
                .set_index_option(IndexRecordOption::WithFreqs)
                .set_fieldnorms(false),
        );
        Self {
            volume: schema.add_text_field("volume", STRING | STORED),
            number: schema.add_u64_field("number", INDEXED | STORED),
            name: schema.add_text_field("name", STRING | STORED),
            language: schema.add_text_field("language", STRING),
            text: schema.add_text_field("text", tokens.clone()),
            title: schema.add_text_field("title", tokens),
            lines: schema.add_text_field("lines", STORED),
            kind: schema.add_text_field("kind", STRING),
            terms: schema.add_text_field("terms", weights),
            passage: schema.add_text_field("passage", STORED),
            schema: schema.build(),
        }
    }
}

/// Returns the index of one volume as the bytes of an artifact: the same text gives the same bytes.
///
/// # Errors
///
/// If the text is more than an index of a volume can hold.
pub fn index_volume(text: &VolumeText) -> Result<Vec<u8>, SearchError> {
    let fields = Fields::new();
    let directory = RamDirectory::create();
    let builder = Index::builder().schema(fields.schema.clone());
    let mut writer = builder.single_segment_index_writer::<TantivyDocument>(directory.clone(), ARENA)?;
    for page in &text.pages {
        writer.add_document(fields.document(&text.volume, page))?;
    }
    for chunk in &text.chunks {
        writer.add_document(fields.chunk(&text.volume, chunk))?;
    }
    let index = writer.finalize()?;
    let vectors: Vec<Vec<f32>> = text.chunks.iter().map(|chunk| chunk.dense.clone()).collect();
    bundle::pack(
        &index,
        &directory,
        &text.volume,
        vectors::file_of(&text.model, &vectors),
    )
}

impl Fields {
    fn document(&self, volume: &str, page: &PageText) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_text(self.volume, volume);
        document.add_u64(self.number, u64::from(page.number));
        document.add_text(self.name, &page.name);
        document.add_text(self.language, &page.language);
        document.add_text(self.kind, PAGE);
        let of_lines = line_tokens(&page.lines).into_iter().map(|(_, token)| token);
        document.add_pre_tokenized_text(self.text, pre_tokenized(of_lines));
        for heading in &page.headings {
            document.add_pre_tokenized_text(self.title, pre_tokenized(tokens(heading)));
        }
        for line in &page.lines {
            document.add_text(self.lines, line);
        }
        document
    }

    fn chunk(&self, volume: &str, chunk: &ChunkText) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_text(self.volume, volume);
        document.add_u64(self.number, u64::from(chunk.page));
        document.add_text(self.language, &chunk.language);
        document.add_text(self.kind, CHUNK);
        document.add_text(self.passage, &chunk.text);
        let tokens = chunk.terms.iter().flat_map(|(term, weight)| {
            let times = (weight * TIMES).round().clamp(1.0, MOST_TIMES) as usize;
            std::iter::repeat_n(term_of(*term), times)
        });
        let tokens = tokens.enumerate().map(|(position, term)| Token {
            term,
            position,
            range: 0..0,
        });
        document.add_pre_tokenized_text(self.terms, pre_tokenized(tokens));
        document
    }
}

/// Name of a term in the index.
pub(crate) fn term_of(term: u32) -> String {
    term.to_string()
}

fn pre_tokenized(tokens: impl IntoIterator<Item = Token>) -> PreTokenizedString {
    let engine_token = |token: Token| EngineToken {
        position: token.position,
        text: token.term,
        ..EngineToken::default()
    };
    PreTokenizedString {
        text: String::new(),
        tokens: tokens.into_iter().map(engine_token).collect(),
    }
}
