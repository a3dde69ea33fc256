//! Dry run: which items of a plan a run would skip, by the same check that the run itself makes.

use serde::Serialize;

use super::{ItemWorker, StageOptions, StagePlan, WorkItem};

/// Reason why an item is worked on although an earlier run may have been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Redo {
    /// No result is there.
    Absent,
    /// The result was made from another input, with another configuration or other models.
    Changed,
    /// Something that the result names is gone or empty.
    Incomplete,
    /// Everything is to be done again.
    Forced,
}

impl Redo {
    /// The reason in words, for lists and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "no result yet",
            Self::Changed => "input, settings or models changed",
            Self::Incomplete => "parts of the result are gone",
            Self::Forced => "forced",
        }
    }
}

/// An item as a run would find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemPreview {
    pub item_id: String,
    /// Reason to work on the item; `None` where its result stands and it would be skipped.
    pub redo: Option<Redo>,
}

/// Previews a run of `plan`: which items it would skip and which it would work on, in plan order. Nothing is run or written.
pub async fn preview_stage<W: ItemWorker>(
    plan: &StagePlan,
    worker: &W,
    options: &StageOptions,
) -> Vec<ItemPreview> {
    let mut previews = Vec::with_capacity(plan.items().len());
    for item in plan.items() {
        previews.push(ItemPreview {
            item_id: item.item_id.clone(),
            redo: standing(worker, item, options).await.err(),
        });
    }
    previews
}

/// The output that stands for `item`, or the reason to make it.
pub(super) async fn standing<W: ItemWorker>(
    worker: &W,
    item: &WorkItem,
    options: &StageOptions,
) -> Result<W::Output, Redo> {
    if options.force || !options.resume {
        return Err(Redo::Forced);
    }
    worker.resume(item).await
}
