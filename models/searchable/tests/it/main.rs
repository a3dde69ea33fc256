//! Searchable PDFs as another library reads them.

mod layers;
mod made;
mod pictures;
mod reader;
mod set;
