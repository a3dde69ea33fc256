//! The layout of a page as a whole: its regions, and the cells of those that are tables.

use image::{RgbImage, imageops};
use parkhang_documents::{LayoutClass, PageLayout, PlacedTable, Region, area, intersection};

use crate::figure::is_drawn;
use crate::inference::InferenceError;
use crate::models::LayoutModels;
use crate::regions::regions;
use crate::table_split::splits;
use crate::table_structure::table_structure;

/// Share of the smaller of two tables that they have in common from which they are one.
const SAME: f32 = 0.6;
/// Margin around a table in its picture, as a share of its sides: the detector cuts off rules at the edges.
const MARGIN: f32 = 0.01;
/// Largest number of tables of a page whose cells are read; they are the surest ones.
const MAX_TABLES: usize = 16;

/// The layout of a page, which is upright. `words` are the boxes of the words on it, in pixels.
///
/// # Errors
/// [`InferenceError`] of a network.
pub fn page_layout(
    page: &RgbImage,
    words: &[[f32; 4]],
    models: &LayoutModels,
) -> Result<PageLayout, InferenceError> {
    let (tables, mut regions): (Vec<Region>, Vec<Region>) = regions(page, models.layout.as_ref())?
        .into_iter()
        .partition(|region| region.kind == LayoutClass::Table);
    regions.retain(|region| region.kind != LayoutClass::Figure || is_drawn(page, region.bounds, words));
    let mut kept: Vec<[f32; 4]> = Vec::new();
    for table in tables {
        if kept.len() < MAX_TABLES && !kept.iter().any(|kept| is_same(kept, &table.bounds)) {
            kept.push(table.bounds);
        }
    }
    let tables = kept.into_iter().flat_map(|bounds| apart(page, bounds));
    let tables = tables.take(MAX_TABLES).map(|bounds| {
        let (left, top, picture) = cut(page, bounds);
        let mut structure = table_structure(&picture, models.table.as_ref())?;
        for cell in &mut structure.cells {
            for (place, edge) in cell.bounds.iter_mut().enumerate() {
                *edge += [left, top][place % 2] as f32;
            }
        }
        Ok(PlacedTable { bounds, structure })
    });
    Ok(PageLayout {
        tables: tables.collect::<Result<_, InferenceError>>()?,
        regions,
    })
}

/// The tables in a region that the detector takes for one.
fn apart(page: &RgbImage, bounds: [f32; 4]) -> Vec<[f32; 4]> {
    let (_, top, picture) = cut(page, bounds);
    let [left, mut above, right, bottom] = bounds;
    let mut tables = Vec::new();
    for split in splits(&picture) {
        let split = (top + split) as f32;
        tables.push([left, above, right, split]);
        above = split;
    }
    tables.push([left, above, right, bottom]);
    tables
}

fn is_same(one: &[f32; 4], other: &[f32; 4]) -> bool {
    intersection(one, other) > SAME * area(one).min(area(other))
}

/// The part of a page in a box and a margin around it, and its upper left corner.
fn cut(page: &RgbImage, bounds: [f32; 4]) -> (u32, u32, RgbImage) {
    let margin = MARGIN * (bounds[2] - bounds[0]).max(bounds[3] - bounds[1]);
    let inside = |place: f32, side: u32| (place.max(0.0) as u32).min(side);
    let (left, top) = (
        inside(bounds[0] - margin, page.width()),
        inside(bounds[1] - margin, page.height()),
    );
    let (right, bottom) = (
        inside((bounds[2] + margin).ceil(), page.width()),
        inside((bounds[3] + margin).ceil(), page.height()),
    );
    let picture = imageops::crop_imm(
        page,
        left,
        top,
        right.saturating_sub(left),
        bottom.saturating_sub(top),
    )
    .to_image();
    (left, top, picture)
}
