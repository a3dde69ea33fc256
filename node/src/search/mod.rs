//! Search in what was read: the question as it is typed and the answer as it is shown, which are the same for jobs of a cluster and for an
//! output folder of `node ocr`; and `node search --out`, which searches such a folder.

mod answer;
mod ask;
mod folder;
mod meaning;
mod question;
mod wylie;

pub use answer::{Found, Hit};
pub use ask::ask;
pub use folder::{SearchFolderArgs, run};
pub use meaning::QueryModels;
pub use question::Question;
