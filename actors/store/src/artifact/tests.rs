//! Tables through Parquet and back, and what is refused.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int32Array, LargeStringArray, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use super::provenance::tests::sample;
use super::*;
use crate::storage::{ArtifactKey, MemoryArtifacts};
use parkhang_core::domain::{ErrorCategory, TextEncoding};
use parkhang_documents::{Cell, ChunkKind, Role};

fn key() -> ArtifactKey {
    ArtifactKey::new("jobs/J1/table.parquet").unwrap()
}

fn encode<R: ArtifactRow>(rows: &[R]) -> Bytes {
    encode_table(&key(), rows.to_vec(), &sample()).unwrap()
}

fn decode<R: ArtifactRow>(bytes: Bytes) -> Result<Vec<R>, ArtifactError> {
    decode_table(&key(), bytes).map(|table| table.rows)
}

fn contour() -> impl Strategy<Value = Contour> {
    prop::collection::vec(any::<[i32; 2]>(), 0..5)
}

fn region() -> impl Strategy<Value = PageRegion> {
    (".{0,5}", contour()).prop_map(|(kind, contour)| PageRegion { kind, contour })
}

fn float() -> impl Strategy<Value = f32> {
    -1e9_f32..1e9
}

prop_compose! {
    fn line_detection_row()(
        name in ".{0,9}", mask in prop::collection::vec(any::<u8>(), 0..40), numbers in any::<[i32; 5]>(),
        (angle, ratio, alpha) in (float(), prop::option::of(float()), prop::option::of(float())),
        (dewarping_applied, is_binary) in any::<(bool, bool)>(),
        filtered_contours in prop::collection::vec(contour(), 0..4),
        tps_points in prop::option::of(prop::collection::vec([float(), float(), float(), float()], 0..4)),
        regions in prop::option::of(prop::collection::vec(region(), 0..3)),
        is_negative in any::<Option<bool>>(),
    ) -> LineDetectionRow {
        LineDetectionRow {
            rotated_image_path: format!("rotated/{name}.jpg"),
            source_name: format!("{name}.tif"),
            input_sha256: Digest::of(name.as_bytes()).to_string(),
            image_name: name,
            rot_mask: mask,
            page_angle: angle,
            tps_ratio: ratio,
            tps_alpha: alpha,
            dewarping_applied, filtered_contours, tps_points, is_binary, regions, is_negative,
            page_index: numbers[0],
            image_width: numbers[1],
            image_height: numbers[2],
            rotated_width: numbers[3],
            rotated_height: numbers[4],
        }
    }
}

prop_compose! {
    fn line_image_row()(name in ".{0,9}", numbers in any::<[i32; 14]>(), contour in contour(), is_binary: bool, is_levelled: Option<bool>)
        -> LineImageRow {
        let [line_index, bbox_x, bbox_y, bbox_w, bbox_h, center_x, center_y, page_index, crop_x, crop_y, crop_w, crop_h,
            image_width, image_height] = numbers;
        LineImageRow {
            line_image_path: format!("lines/{name}.jpg"),
            line_guid: format!("guid-{name}"),
            image_name: name,
            line_index, bbox_x, bbox_y, bbox_w, bbox_h, center_x, center_y, contour, page_index, crop_x, crop_y, crop_w,
            crop_h, image_width, image_height, is_binary, is_levelled,
        }
    }
}

prop_compose! {
    fn ocr_result_row()(
        text in ".{0,20}", line_index: i32, page_index: i32, confidence in prop::option::of(float()), unicode: bool,
        outline in prop::option::of(contour()), alignment in prop::option::of(float()),
        perplexity in prop::option::of(float()), (ink_y, ink_h) in any::<(Option<i32>, Option<i32>)>(),
        sources in prop::option::of(prop::collection::vec(any::<i32>(), 0..4)), segments in prop::collection::vec((".{0,5}", any::<i32>(), any::<i32>(), float()), 0..5),
    ) -> OcrResultRow {
        let segment = |(text, x, width, confidence)| Segment { text, x, width, confidence };
        OcrResultRow {
            image_name: "p".to_owned(),
            line_guid: String::new(),
            encoding: if unicode { TextEncoding::Unicode } else { TextEncoding::Wylie },
            segments: segments.into_iter().map(segment).collect(),
            text, line_index, page_index, confidence, outline, alignment, perplexity, sources, ink_y, ink_h,
        }
    }
}

prop_compose! {
    fn error_row()(message in ".{0,20}", page_index: i32, attempts: i32, category in prop::sample::select(&ErrorCategory::ALL)) -> ErrorRow {
        ErrorRow { image_name: "p".to_owned(), page_index, category, message, attempts }
    }
}

fn bounds() -> impl Strategy<Value = [f32; 4]> {
    [float(), float(), float(), float()]
}

prop_compose! {
    fn page_text_row()(
        reason in ".{0,9}", (page_index, rotation) in any::<(i32, i32)>(), [width, height, dpi, score] in bounds(),
        verdict in prop::sample::select(&TextVerdict::ALL),
        words in prop::collection::vec((".{0,5}", bounds(), any::<i32>()), 0..5), picture_share in prop::option::of(float()),
    ) -> PageTextRow {
        let word = |(text, bounds, line)| LayerWord { text, bounds, line };
        PageTextRow {
            image_name: "page_1".to_owned(),
            source_name: "page_1".to_owned(),
            words: words.into_iter().map(word).collect(),
            page_index, width, height, rotation, dpi, verdict, score, reason, picture_share,
        }
    }
}

prop_compose! {
    fn word_row()(
        text in ".{0,9}", engine in ".{0,9}", (page_index, page, word_index, line) in any::<(i32, i32, i32, i32)>(), bounds in bounds(),
        confidence in prop::option::of(float()), source in prop::sample::select(&WordSource::ALL),
        contradicted in any::<Option<bool>>(),
    ) -> WordRow {
        let [bbox_x0, bbox_y0, bbox_x1, bbox_y1] = bounds;
        WordRow {
            image_name: "page_1".to_owned(),
            page_index, page, word_index, text, bbox_x0, bbox_y0, bbox_x1, bbox_y1, confidence, line, source, engine,
            contradicted,
        }
    }
}

prop_compose! {
    fn cell()(
        places in prop::array::uniform4(0_usize..99), is_header: bool, bounds in bounds(), text in ".{0,9}",
    ) -> Cell {
        let [row, column, row_span, column_span] = places;
        Cell { row, column, row_span, column_span, is_header, bounds, text }
    }
}

prop_compose! {
    fn block_row()(
        text in ".{0,9}", (page_index, page, block_index) in any::<(i32, i32, i32)>(), bounds in bounds(), size in float(),
        role in prop::sample::select(&Role::ALL[..]), cells in prop::collection::vec(cell(), 0..4),
    ) -> BlockRow {
        let [bbox_x0, bbox_y0, bbox_x1, bbox_y1] = bounds;
        BlockRow {
            image_name: "page_1".to_owned(),
            page_index, page, block_index, role, text, bbox_x0, bbox_y0, bbox_x1, bbox_y1, size, cells,
        }
    }
}

prop_compose! {
    fn vector_row()(
        (page_index, page, chunk) in any::<(i32, i32, i32)>(), dense in prop::collection::vec(-1.0_f32..1.0, 0..9),
        terms in prop::collection::vec((any::<u32>(), 0.0_f32..9.0), 0..9),
    ) -> VectorRow {
        let (indices, values) = terms.into_iter().unzip();
        VectorRow { image_name: "page_1".to_owned(), page_index, page, chunk, dense, indices, values }
    }
}

prop_compose! {
    fn chunk_row()(
        text in ".{0,9}", (page_index, page, chunk, tokens) in any::<(i32, i32, i32, i32)>(), lang in prop::option::of("[a-z]{2}"),
        kind in prop::sample::select(&ChunkKind::ALL[..]), headings in prop::collection::vec(".{0,5}", 0..3),
        boxes in prop::collection::vec((any::<i32>(), bounds()), 0..4),
    ) -> ChunkRow {
        ChunkRow {
            image_name: "page_1".to_owned(),
            page_index, page, chunk, text, tokens, lang, kind, headings,
            pages: boxes.iter().map(|(page, _)| *page).collect(),
            boxes: boxes.into_iter().map(|(page, bounds)| ChunkBox { page, bounds }).collect(),
        }
    }
}

macro_rules! round_trips {
    ($($test:ident: $row:ident of $strategy:ident;)+) => {$(
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(32))]

            #[test]
            fn $test(rows in prop::collection::vec($strategy(), 0..70)) {
                let bytes = encode(&rows);
                prop_assert_eq!(&decode::<$row>(bytes.clone()).unwrap(), &rows);
                prop_assert_eq!(encode(&rows), bytes);
            }
        }
    )+};
}

round_trips! {
    line_detection_round_trips: LineDetectionRow of line_detection_row;
    line_images_round_trip: LineImageRow of line_image_row;
    ocr_results_round_trip: OcrResultRow of ocr_result_row;
    page_text_round_trips: PageTextRow of page_text_row;
    words_round_trip: WordRow of word_row;
    blocks_round_trip: BlockRow of block_row;
    chunks_round_trip: ChunkRow of chunk_row;
    vectors_round_trip: VectorRow of vector_row;
    errors_round_trip: ErrorRow of error_row;
}

fn error_rows(count: i32) -> Vec<ErrorRow> {
    let row = |page_index| ErrorRow {
        image_name: format!("p{page_index}"),
        page_index,
        category: ErrorCategory::Input,
        message: "not an image".to_owned(),
        attempts: 1,
    };
    (0..count).map(row).collect()
}

#[test]
fn many_batches_are_read_one_at_a_time() {
    let rows = error_rows(1300);
    let reader = TableReader::<ErrorRow>::open(&key(), encode(&rows)).unwrap();
    let batches: Vec<Vec<ErrorRow>> = reader.map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| batch.len() <= ErrorRow::BATCH_ROWS));
    assert_eq!(batches.concat(), rows);
}

#[tokio::test]
async fn a_table_goes_through_a_store_with_its_provenance() {
    let store = MemoryArtifacts::new();
    write_table(&store, &key(), error_rows(3), &sample())
        .await
        .unwrap();
    let table: Table<ErrorRow> = read_table(&store, &key()).await.unwrap();
    assert_eq!((table.rows, table.provenance), (error_rows(3), sample()));
    let absent = ArtifactKey::new("absent").unwrap();
    let error = read_table::<ErrorRow>(&store, &absent).await.unwrap_err();
    assert!(error.to_string().contains("absent"));
    assert_eq!(error.category(), ErrorCategory::Input);
}

#[test]
fn columns_are_stored_as_readers_expect() {
    let row = LineDetectionRow {
        image_name: "p".to_owned(),
        rotated_image_path: "p.jpg".to_owned(),
        rot_mask: vec![1; 1000],
        page_angle: 0.5,
        dewarping_applied: true,
        tps_ratio: None,
        filtered_contours: vec![vec![[1, 2], [3, 4]]],
        page_index: 0,
        source_name: "p.tif".to_owned(),
        image_width: 1,
        image_height: 1,
        rotated_width: 1,
        rotated_height: 1,
        tps_points: Some(vec![[1.0, 2.0, 3.0, 4.0]]),
        tps_alpha: None,
        input_sha256: String::new(),
        is_binary: false,
        regions: None,
        is_negative: None,
    };
    let file = SerializedFileReader::new(encode(&[row])).unwrap();
    let metadata = file.metadata();
    assert_eq!(
        metadata.file_metadata().created_by(),
        Some(concat!("parkhang version ", env!("CARGO_PKG_VERSION")))
    );
    let column = |path: &str| {
        let columns = metadata.row_group(0).columns();
        columns
            .iter()
            .find(|column| column.column_path().string() == path)
            .unwrap_or_else(|| panic!("{path}"))
    };
    let element = "list.element";
    for path in [
        format!("filtered_contours.{element}.{element}.{element}"),
        format!("tps_points.{element}.{element}"),
        "page_angle".to_owned(),
    ] {
        assert!(
            column(&path)
                .encodings()
                .any(|encoding| encoding == Encoding::BYTE_STREAM_SPLIT),
            "{path}"
        );
        assert!(column(&path).dictionary_page_offset().is_none(), "{path}");
    }
    let mask = column("rot_mask");
    assert_eq!(mask.compression(), Compression::UNCOMPRESSED);
    assert!(mask.dictionary_page_offset().is_none() && mask.statistics().is_none());
    assert!(matches!(column("image_name").compression(), Compression::ZSTD(_)));
}

/// A file of another writer: `ErrorRow`'s columns, changed by `change`, with or without our metadata.
fn foreign(change: impl Fn(&str, ArrayRef) -> Vec<(String, ArrayRef)>, metadata: bool) -> Bytes {
    let fields = ErrorRow::fields();
    let columns = ErrorRow::to_columns(&error_rows(2)).unwrap();
    let changed = fields
        .iter()
        .zip(columns)
        .flat_map(|(field, column)| change(field.name(), column));
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = changed
        .map(|(name, column)| (Field::new(name, column.data_type().clone(), true), column))
        .unzip();
    let schema = Arc::new(Schema::new(fields));
    let entries = vec![
        KeyValue::new(table::SCHEMA_KEY.to_owned(), "errors/1".to_owned()),
        KeyValue::new(
            table::PROVENANCE_KEY.to_owned(),
            serde_json::to_string(&sample()).unwrap(),
        ),
    ];
    let properties = WriterProperties::builder()
        .set_key_value_metadata(metadata.then_some(entries))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).unwrap();
    writer
        .write(&RecordBatch::try_new(schema, columns).unwrap())
        .unwrap();
    writer.close().unwrap();
    Bytes::from(bytes)
}

fn same(name: &str, column: ArrayRef) -> Vec<(String, ArrayRef)> {
    vec![(name.to_owned(), column)]
}

#[test]
fn more_columns_another_order_and_large_strings_are_no_harm() {
    let bytes = foreign(
        |name, column| match name {
            "image_name" => vec![("more".to_owned(), Arc::new(Int32Array::from(vec![1, 2])))],
            "attempts" => {
                let names: ArrayRef = Arc::new(LargeStringArray::from(vec!["p0", "p1"]));
                vec![(name.to_owned(), column), ("image_name".to_owned(), names)]
            }
            _ => same(name, column),
        },
        true,
    );
    assert_eq!(decode::<ErrorRow>(bytes).unwrap(), error_rows(2));
}

#[test]
fn a_column_that_was_added_is_absent_in_older_tables() {
    let fields: Vec<Field> = LineDetectionRow::fields();
    let older: Vec<Field> = fields
        .iter()
        .filter(|field| field.name() != "regions")
        .cloned()
        .collect();
    columns::check_schema(&fields, &Schema::new(older)).unwrap();
    let batch = RecordBatch::try_from_iter([("more", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]);
    let batch = batch.unwrap();
    let regions: Vec<Option<Vec<PageRegion>>> = Columns::new(&batch).values("regions").unwrap();
    assert_eq!(regions, [None, None]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let drop_message = |name: &str, column| {
        if name == "message" {
            vec![]
        } else {
            same(name, column)
        }
    };
    let widen_index = |name: &str, column: ArrayRef| match name {
        "page_index" => same(name, cast(&column, &DataType::Int64).unwrap()),
        _ => same(name, column),
    };
    let null_message = |name: &str, column| match name {
        "message" => same(name, Arc::new(StringArray::from(vec![Some("a"), None]))),
        _ => same(name, column),
    };
    let odd_category = |name: &str, column| match name {
        "category" => same(name, Arc::new(StringArray::from(vec!["input", "weather"]))),
        _ => same(name, column),
    };
    for (bytes, expected) in [
        (foreign(drop_message, true), "column message is missing"),
        (
            foreign(widen_index, true),
            "column page_index is Int64, not Int32",
        ),
        (foreign(null_message, true), "column message holds a null"),
        (foreign(odd_category, true), "\"weather\" is no error category"),
        (foreign(same, false), "a table of another program"),
        (encode::<LineImageRow>(&[]), "holds line_images/1, not errors/1"),
        (Bytes::from_static(b"not parquet"), "not a readable Parquet file"),
        (Bytes::new(), "not a readable Parquet file"),
    ] {
        let error = decode::<ErrorRow>(bytes).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(key().as_str()), "{error}");
        assert_eq!(error.category(), ErrorCategory::Input);
    }
}

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let bytes = encode(&error_rows(20));
    for length in 0..bytes.len() {
        assert!(
            decode::<ErrorRow>(bytes.slice(..length)).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
}

#[test]
fn a_damaged_byte_never_panics() {
    let mut damaged = encode(&error_rows(20)).to_vec();
    for position in 0..damaged.len() {
        for flip in [0xff, 0x01, 0x80] {
            damaged[position] ^= flip;
            // Damage within a compressed page may go unnoticed; what counts is to come back.
            let _ = decode::<ErrorRow>(Bytes::copy_from_slice(&damaged));
            damaged[position] ^= flip;
        }
    }
    assert_eq!(decode::<ErrorRow>(Bytes::from(damaged)).unwrap(), error_rows(20));
}

#[test]
fn polygons_of_another_shape_are_refused() {
    let list = |lengths: &[usize]| -> ArrayRef {
        let total = lengths.iter().sum::<usize>() as i32;
        let values = Arc::new(Int32Array::from_iter_values(0..total));
        let points = nested::list(lengths.iter().copied(), values, None).unwrap();
        Arc::new(nested::list([lengths.len()], Arc::new(points), None).unwrap())
    };
    let read = |array: ArrayRef| {
        let schema = Schema::new(vec![Field::new("contour", array.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        Columns::new(&batch).values::<Contour>("contour")
    };
    assert_eq!(read(list(&[2, 2])).unwrap(), [vec![[0, 1], [2, 3]]]);
    for wrong in [&[2, 3][..], &[1], &[2, 0], &[1, 3]] {
        let error = read(list(wrong)).unwrap_err().to_string();
        assert!(
            error.contains("contour") && error.contains("coordinates"),
            "{error}"
        );
    }
}

/// Tables as they may lie in an archive that others write to.
#[test]
fn fuzz_tables() {
    let text = OcrResultRow {
        image_name: "p1".to_owned(),
        line_index: 0,
        line_guid: "a".to_owned(),
        text: "བཀྲ་ཤིས།".to_owned(),
        encoding: TextEncoding::Unicode,
        page_index: 0,
        confidence: Some(0.5),
        segments: Vec::new(),
        outline: Some(vec![[0, 0], [9, 0], [9, 9]]),
        alignment: None,
        perplexity: Some(3.5),
        sources: Some(vec![1, 2]),
        ink_y: Some(12),
        ink_h: Some(50),
    };
    let corpus = [
        encode(&[text.clone(), text]).to_vec(),
        encode::<LineDetectionRow>(&[]).to_vec(),
    ];
    parkhang_fuzz::Fuzz::new("tables", corpus).feeds(|bytes| {
        let bytes = Bytes::copy_from_slice(bytes);
        let _ = (
            decode::<OcrResultRow>(bytes.clone()),
            decode::<LineDetectionRow>(bytes),
        );
    });
}
