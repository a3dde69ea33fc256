//! Search in what jobs have read: the text of a volume as it is indexed, and the index of a job on the disk of the machine that searches.
//!
//! The tables of the stages are the only truth. The stage `index` makes the index of a volume where the volume is, which spares the machine
//! that searches the work; a volume without one is indexed from its tables when it is first searched. So jobs of any pipeline
//! can be searched, and an index that was deleted is made again by the next search. The room writes nothing to the artifact store.

mod text;
mod update;

pub use text::volume_text;
pub use update::{IndexUpdate, WantedVolume, update_index};
