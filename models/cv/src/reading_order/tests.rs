use proptest::prelude::*;

use super::*;

fn line(x: f32, y: f32, width: f32) -> Bounds {
    [x, y, x + width, y + 10.0]
}

/// Lines one below the other.
fn column(x: f32, rows: std::ops::Range<usize>, width: f32) -> Vec<Bounds> {
    rows.map(|row| line(x, row as f32 * 15.0, width)).collect()
}

/// Asserts that boxes, given in reading order, are read in it whatever their order is.
fn assert_read(boxes: &[Bounds]) {
    let mut others = [boxes.to_vec(), boxes.to_vec(), boxes.to_vec()];
    others[1].reverse();
    others[2].sort_by(|one, other| one[1].total_cmp(&other[1]));
    for boxes_in_other_order in others {
        assert_eq!(read(&boxes_in_other_order), boxes);
    }
}

#[test]
fn columns_are_read_one_after_the_other_between_headings() {
    let page = [
        vec![line(50.0, 0.0, 300.0)],
        column(0.0, 1..5, 180.0),
        column(210.0, 1..5, 180.0),
        vec![line(50.0, 80.0, 300.0)],
        column(0.0, 6..10, 180.0),
        column(210.0, 6..10, 180.0),
    ];
    assert_read(&page.concat());
}

#[test]
fn lines_that_end_or_begin_in_the_gap_are_of_their_column() {
    let mut left = column(0.0, 0..12, 180.0);
    left[5] = line(0.0, 75.0, 200.0);
    let mut right = column(215.0, 0..12, 180.0);
    right[7] = line(205.0, 105.0, 190.0);
    assert_read(&[left, right].concat());
}

/// Blocks of two columns of so many rows of lines.
fn blocks_of(rows: usize, width: f32) -> Vec<Vec<Bounds>> {
    let boxes = [column(0.0, 0..rows, width), column(width + 80.0, 0..rows, width)].concat();
    let blocks = text_blocks(&boxes, &ColumnRules::LINES).into_iter();
    blocks
        .map(|block| block.into_iter().map(|place| boxes[place]).collect())
        .collect()
}

#[test]
fn rows_of_a_leaf_go_on_across_the_picture_in_its_middle() {
    let parts = (0..6).flat_map(|row| [0.0, 480.0].map(|x| vec![line(x, row as f32 * 15.0, 400.0)]));
    assert_eq!(blocks_of(6, 400.0), parts.collect::<Vec<_>>());
    assert_eq!(blocks_of(20, 400.0).len(), 2, "a page");
}

#[test]
fn few_lines_are_columns_where_the_gap_is_too_narrow_for_a_hole() {
    let blocks = |gap: f32| {
        let beside = [column(0.0, 2..7, 180.0), column(180.0 + gap, 2..7, 180.0)].concat();
        let across = [
            column(0.0, 0..2, 360.0 + gap),
            beside,
            column(0.0, 7..8, 360.0 + gap),
        ]
        .concat();
        text_blocks(&across, &ColumnRules::LINES).len()
    };
    assert_eq!((blocks(8.0), blocks(15.0)), (4, 1));
}

#[test]
fn there_may_be_three_columns_with_pictures_in_them() {
    let page = [
        column(0.0, 0..30, 140.0),
        column(160.0, 0..8, 140.0),
        column(160.0, 18..30, 140.0),
        column(320.0, 0..25, 140.0),
    ];
    assert_read(&page.concat());
}

#[test]
fn a_table_in_a_column_is_read_by_rows() {
    let cells = (0..16).map(|cell| {
        line(
            210.0 + (cell % 4) as f32 * 45.0,
            150.0 + (cell / 4) as f32 * 15.0,
            30.0,
        )
    });
    let page = [
        column(0.0, 0..20, 180.0),
        column(210.0, 0..9, 180.0),
        cells.collect(),
        column(210.0, 15..20, 180.0),
    ];
    assert_read(&page.concat());
}

#[test]
fn the_head_of_a_page_is_read_first_and_its_foot_last() {
    let page = [
        vec![line(300.0, 0.0, 90.0)],
        column(0.0, 3..20, 180.0),
        column(210.0, 3..20, 180.0),
        vec![line(0.0, 320.0, 20.0)],
    ];
    assert_read(&page.concat());
}

#[test]
fn cells_are_read_row_by_row() {
    let cells: Vec<Bounds> = (0..12)
        .map(|cell| line((cell % 3) as f32 * 100.0, (cell / 3) as f32 * 20.0, 30.0))
        .collect();
    assert_read(&cells);
}

#[test]
fn fields_of_a_form_are_read_row_by_row() {
    let widths = [81.0, 98.0, 81.0, 71.0, 62.0, 66.0, 67.0, 60.0];
    let values = [76.0, 57.0, 25.0, 101.0, 94.0, 63.0, 126.0, 57.0];
    let fields: Vec<Bounds> = (0..16)
        .map(|field| {
            let row = field / 2;
            let (x, width) = if field % 2 == 0 {
                (64.0, widths[row])
            } else {
                (257.0, values[row])
            };
            line(x, row as f32 * 30.0, width)
        })
        .collect();
    assert_read(&fields);
}

fn boxes() -> impl Strategy<Value = Vec<Bounds>> {
    let one = (0_u16..500, 0_u16..500, 1_u16..300, 1_u16..30)
        .prop_map(|(x, y, w, h)| [x, y, x + w, y + h].map(f32::from));
    let columns = (1_usize..4, 3_usize..20, 100_u16..200).prop_map(|(columns, rows, width)| {
        let width = f32::from(width);
        (0..columns)
            .flat_map(|column_at| column(column_at as f32 * (width + 20.0), 0..rows, width))
            .collect::<Vec<_>>()
    });
    (prop::collection::vec(one, 0..40), columns).prop_map(|(boxes, columns)| [boxes, columns].concat())
}

fn read(boxes: &[Bounds]) -> Vec<Bounds> {
    reading_order(boxes)
        .into_iter()
        .map(|place| boxes[place])
        .collect()
}

proptest! {
    #[test]
    fn every_box_is_read_once(boxes in boxes()) {
        let mut order = reading_order(&boxes);
        order.sort_unstable();
        prop_assert_eq!(order, (0..boxes.len()).collect::<Vec<_>>());
    }

    #[test]
    fn the_order_of_the_boxes_is_of_no_account((boxes, shuffled) in boxes().prop_flat_map(|boxes| (Just(boxes.clone()), Just(boxes).prop_shuffle()))) {
        prop_assert_eq!(read(&boxes), read(&shuffled));
    }

    #[test]
    fn a_page_may_be_moved_and_enlarged(boxes in boxes(), by in 0_u16..100) {
        let moved = |bounds: &Bounds| bounds.map(|edge| 2.0 * (edge + f32::from(by)));
        let elsewhere: Vec<Bounds> = boxes.iter().map(moved).collect();
        let expected: Vec<Bounds> = read(&boxes).iter().map(moved).collect();
        prop_assert_eq!(read(&elsewhere), expected);
    }

    #[test]
    fn what_is_read_is_in_order(boxes in boxes()) {
        let once = read(&boxes);
        prop_assert_eq!(reading_order(&once), (0..once.len()).collect::<Vec<_>>());
    }

    #[test]
    fn no_edges_upset_it(boxes in prop::collection::vec(prop::array::uniform4(any::<f32>()), 0..30)) {
        prop_assert_eq!(reading_order(&boxes).len(), boxes.len());
    }
}
