//! Weight of documents and pages: what decoding would cost, found out before anything is decoded. A few bytes may stand for gigabytes, and
//! the library decodes whatever a stream holds into memory.

mod filters;
mod jbig2;
mod lzw;
mod objects;
mod sections;

pub(crate) use objects::{Checked, check_inline_picture, check_page};
pub(crate) use sections::check_file;
