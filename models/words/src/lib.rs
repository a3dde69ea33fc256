//! Words of pages of any print: which way up a page is, where its text is, what it says, and where each word stands.
mod charset;
pub mod import;
pub mod inference;
mod layers;
mod models;
mod networks;
mod page_orientation;

pub use charset::Charset;
pub use inference::InferenceError;
pub use models::{FOLDERS, PrintModels, is_print_models, load};
pub use parkhang_kernels::device::ComputeDevice;
pub use parkhang_models::weights::WeightsError;
