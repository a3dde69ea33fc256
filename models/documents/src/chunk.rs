//! Chunks of documents: texts that are embedded and searched one by one.

/// Origin of a chunk's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// Running text.
    Text,
    /// Rows of a table.
    Table,
}

impl ChunkKind {
    pub const ALL: [Self; 2] = [Self::Text, Self::Table];

    /// Name in tables and files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Table => "table",
        }
    }
}
