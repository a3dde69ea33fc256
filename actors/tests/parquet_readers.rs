//! Other programs read what we write. Needs Python with pyarrow, duckdb and polars, so it runs only when asked for:
//! `PYTHON=python3 cargo test -p parkhang-actors --test parquet_readers -- --ignored`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{Attempt, ErrorCategory, JobKey, TextEncoding, VolumeId};
use parkhang_documents::{Cell, ChunkKind, Role};
use parkhang_store::artifact::{
    ArtifactLayout, ArtifactRow, BlockRow, ChunkBox, ChunkRow, Digest, ErrorRow, Fingerprint, LayerWord,
    LineDetectionRow, LineImageRow, OcrResultRow, PageTextRow, Provenance, Segment, TextVerdict, VectorRow,
    WordRow, WordSource, write_table,
};
use parkhang_store::storage::{ArtifactKey, LocalStore};

#[tokio::test]
#[ignore = "needs Python with pyarrow, duckdb and polars"]
async fn pyarrow_duckdb_and_polars_agree() {
    let root = tempfile::tempdir().unwrap();
    let store = LocalStore::open(root.path()).await.unwrap();
    let layout = ArtifactLayout::bdrc_v2(&JobKey::new("J1").unwrap());
    for (volume, rows) in [("I1", 300), ("I2", 0)] {
        let volume = layout.volume(&VolumeId::new("W1", volume).unwrap());
        write(&store, &volume.line_detection(), rows, line_detection_row).await;
        write(&store, &volume.line_images(), rows, line_image_row).await;
        write(&store, &volume.ocr_results(), rows, ocr_result_row).await;
        write(&store, &volume.page_text(), rows, page_text_row).await;
        write(&store, &volume.words(), rows, word_row).await;
        write(&store, &volume.blocks(), rows, block_row).await;
        write(&store, &volume.chunks(), rows, chunk_row).await;
        write(&store, &volume.vectors(), rows, vector_row).await;
        write(&store, &volume.errors(&stage("ocr")), rows, error_row).await;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/python/check_parquet.py");
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let status = Command::new(python)
        .arg(script)
        .arg(root.path())
        .status()
        .unwrap();
    assert!(status.success());
}

async fn write<R: ArtifactRow>(store: &LocalStore, key: &ArtifactKey, rows: i32, row: fn(i32) -> R) {
    let digest = Digest::of(b"x");
    let provenance = Provenance {
        job: JobKey::new("J1").unwrap(),
        volume: VolumeId::new("W1", "I1").unwrap(),
        stage: stage("ocr"),
        attempt: Attempt(1),
        models: Vec::new(),
        config_hash: digest,
        input_hash: digest,
        build: "0.1.0".to_owned(),
        fingerprint: Fingerprint::of("ocr", 1, digest, digest, &[]),
        service: None,
        pages: std::collections::BTreeMap::new(),
    };
    write_table(store, key, (0..rows).map(row).collect(), &provenance)
        .await
        .unwrap();
}

fn line_detection_row(i: i32) -> LineDetectionRow {
    LineDetectionRow {
        image_name: format!("པོ་ཏི་{i}"),
        rotated_image_path: format!("rotated/{i}.jpg"),
        rot_mask: (0..i).map(|byte| byte as u8).collect(),
        page_angle: i as f32 / 7.0,
        dewarping_applied: i % 2 == 0,
        tps_ratio: (i % 3 > 0).then_some(0.3),
        filtered_contours: (0..i % 4)
            .map(|c| (0..c * 10).map(|p| [p - 5, i * p]).collect())
            .collect(),
        page_index: i,
        source_name: format!("{i}.tif"),
        image_width: 3000,
        image_height: 1000,
        rotated_width: 2900,
        rotated_height: 990,
        tps_points: (i % 2 == 0).then(|| (0..i % 5).map(|p| [p as f32 * 0.1, 1.0, 2.0, i as f32]).collect()),
        tps_alpha: (i % 2 == 0).then_some(0.5),
        input_sha256: Digest::of(&i.to_le_bytes()).to_string(),
        is_binary: i % 2 == 1,
        regions: None,
        is_negative: (i % 3 > 0).then_some(i % 2 == 0),
    }
}

fn line_image_row(i: i32) -> LineImageRow {
    LineImageRow {
        image_name: "p".to_owned(),
        line_index: i,
        line_image_path: format!("lines/p_{i}.jpg"),
        line_guid: format!("{i:032x}"),
        bbox_x: i,
        bbox_y: -i,
        bbox_w: 100,
        bbox_h: 40,
        center_x: i + 50,
        center_y: 20 - i,
        contour: (0..i % 50).map(|p| [p, p * i]).collect(),
        page_index: i / 8,
        crop_x: i,
        crop_y: 0,
        crop_w: 100,
        crop_h: 40,
        image_width: 100,
        image_height: 40,
        is_binary: false,
        is_levelled: (i % 3 > 0).then_some(i % 2 == 0),
    }
}

fn ocr_result_row(i: i32) -> OcrResultRow {
    let segment = |s: i32| Segment {
        text: "བཀྲ་".to_owned(),
        x: s * 30,
        width: 30,
        confidence: 0.9,
    };
    OcrResultRow {
        image_name: "p".to_owned(),
        line_index: i,
        line_guid: format!("{i:032x}"),
        text: "བཀྲ་ཤིས་".repeat(i as usize % 4),
        encoding: if i % 2 == 0 {
            TextEncoding::Unicode
        } else {
            TextEncoding::Wylie
        },
        page_index: i / 8,
        confidence: (i % 5 > 0).then_some(0.75),
        segments: (0..i % 4).map(segment).collect(),
        outline: (i % 7 == 0).then(|| vec![[0, i], [9, i], [9, i + 4]]),
        alignment: (i % 5 == 0).then_some(0.5),
        perplexity: (i % 3 == 0).then_some(4.5),
        sources: (i % 6 == 0).then(|| (0..i % 4).collect()),
        ink_y: (i % 2 == 0).then_some(i),
        ink_h: (i % 2 == 0).then_some(40),
    }
}

fn page_text_row(i: i32) -> PageTextRow {
    let word = |w: i32| LayerWord {
        text: "註".repeat(w as usize),
        bounds: [w as f32, i as f32, 1.5, 2.25],
        line: w / 2,
    };
    PageTextRow {
        image_name: format!("page_{}", i + 1),
        page_index: i,
        source_name: format!("page_{}", i + 1),
        width: 595.3,
        height: 841.9,
        rotation: 90 * (i % 4),
        dpi: 300.0,
        verdict: TextVerdict::ALL[i as usize % TextVerdict::ALL.len()],
        score: i as f32 / 300.0,
        reason: "the letters are shuffled".to_owned(),
        words: (0..i % 5).map(word).collect(),
        picture_share: (i % 3 > 0).then_some(0.5),
    }
}

fn word_row(i: i32) -> WordRow {
    WordRow {
        image_name: "page_1".to_owned(),
        page_index: 0,
        page: 1,
        word_index: i,
        text: "བཀྲ་".repeat(i as usize % 3),
        bbox_x0: i as f32,
        bbox_y0: 0.5,
        bbox_x1: i as f32 + 9.75,
        bbox_y1: 12.0,
        confidence: (i % 2 == 0).then_some(0.875),
        line: i / 7,
        source: WordSource::ALL[i as usize % 2],
        engine: if i % 2 == 0 { "" } else { "parkhang" }.to_owned(),
        contradicted: (i % 3 > 0).then_some(i % 3 > 1),
    }
}

fn block_row(i: i32) -> BlockRow {
    let cell = |column: usize| Cell {
        row: i as usize,
        column,
        row_span: 1,
        column_span: 2,
        is_header: i == 0,
        bounds: [0.0, 1.0, 2.5, 4.0],
        text: "表".to_owned(),
    };
    BlockRow {
        image_name: "page_1".to_owned(),
        page_index: 0,
        page: 1,
        block_index: i,
        role: Role::ALL[i as usize % Role::ALL.len()],
        text: "A line.\nAnother.".to_owned(),
        bbox_x0: i as f32,
        bbox_y0: 0.5,
        bbox_x1: i as f32 + 9.75,
        bbox_y1: 12.0,
        size: 10.0,
        cells: (0..i as usize % 3).map(cell).collect(),
    }
}

fn vector_row(i: i32) -> VectorRow {
    VectorRow {
        image_name: "page_1".to_owned(),
        page_index: 0,
        page: 1,
        chunk: i,
        dense: vec![0.6, -0.8],
        indices: (0..i as u32 % 3).map(|term| 30_000 * term).collect(),
        values: (0..i % 3).map(|term| term as f32 + 0.5).collect(),
    }
}

fn chunk_row(i: i32) -> ChunkRow {
    let part = |page| ChunkBox {
        page,
        bounds: [0.0, 1.0, 2.5, i as f32],
    };
    ChunkRow {
        image_name: "page_1".to_owned(),
        page_index: 0,
        page: 1,
        chunk: i,
        text: "བཀྲ་ཤིས།".repeat(i as usize % 3),
        tokens: 3 * i,
        lang: (i % 3 > 0).then(|| "bo".to_owned()),
        kind: ChunkKind::ALL[i as usize % 2],
        headings: (0..i % 3).map(|level| format!("heading {level}")).collect(),
        pages: (1..=i % 3).collect(),
        boxes: (1..=i % 3).map(part).collect(),
    }
}

fn error_row(i: i32) -> ErrorRow {
    ErrorRow {
        image_name: "p".to_owned(),
        page_index: i,
        category: ErrorCategory::ALL[i as usize % ErrorCategory::ALL.len()],
        message: "not an image".to_owned(),
        attempts: 1,
    }
}
