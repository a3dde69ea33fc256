//! Words of pages of any print: which way up a page is, where its text is, what it says, and where each word stands; and the layout
//! of such pages: their regions, and the cells of their tables.
//!
//! The rooms import each other in one direction. [`inference`] is the seam in the middle: traits of networks over plain buffers.
//! On its one side is geometry, which never sees a network: the input of each network and what its answer means
//! (`page_orientation`, `detection`, `crop`, `decode`, with `ink` for what frames are too coarse for; `regions`, `table_structure`), the
//! order of lines (`order`), and a page as a whole (`read`). On the other are the networks, over the maps of `parkhang-kernels`, whose layers come
//! from bundles (`models`) or from the ONNX files as published ([`import`]).
//!
//! Coordinates are those of the page that was given, in pixels, x to the right and y down. Here, other than in `parkhang-cv`, they
//! lie between pixels: the page covers 0 to its width, so that boxes scale with the page.

mod charset;
mod crop;
mod decode;
mod detection;
mod figure;
mod imagenet;
pub mod import;
pub mod inference;
mod ink;
mod layers;
mod models;
mod networks;
mod order;
mod page_layout;
mod page_orientation;
#[cfg(test)]
mod parity;
mod quad;
mod read;
mod regions;
mod table_split;
mod table_structure;

pub use charset::Charset;
pub use inference::InferenceError;
pub use models::{
    FOLDERS, LAYOUT_FOLDERS, LayoutModels, PrintModels, is_layout_models, is_print_models, load, load_layout,
};
pub use page_layout::page_layout;
pub use parkhang_cv::turn::Turn;
pub use parkhang_kernels::device::{ComputeDevice, DeviceSpec};
pub use parkhang_models::weights::WeightsError;
pub use quad::{Position, Quad};
pub use read::{Line, Orienting, PageReading, ReadOptions, Word, read, read_lines};
pub use regions::regions;
pub use table_structure::table_structure;
