//! Services that stages of the pipeline `documents` ask in the place of their networks.

use parkhang_documents::Role;
use parkhang_store::artifact::{BlockRow, ChunkRow, ErrorRow, VectorRow};
use serde_json::{Value, json};

use crate::documents::{layout, paper};
use crate::http_service::{Service, completion};
use crate::support::{finish, node, provenance, rows};

/// Rows: 202, 234, 235.
#[test]
fn a_service_makes_the_dense_vectors_of_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let mut busy = 1;
    let service = Service::by(move |asked| {
        if !asked.path.ends_with("/embeddings") {
            return (404, Value::Null);
        }
        if busy > 0 {
            busy -= 1;
            return (429, json!({"error": {"message": "slow down"}}));
        }
        let texts = asked.body["input"].as_array().unwrap();
        let vector = |(index, text): (usize, &Value)| json!({"index": index, "embedding": [text.as_str().unwrap().len(), 3, 0]});
        let data: Vec<Value> = texts.iter().enumerate().map(vector).collect();
        (200, json!({"data": data, "usage": {"prompt_tokens": 5}}))
    });
    let config = folder.path().join("services.toml");
    let section = format!(
        "[service.e5]\nkind = \"openai\"\nurl = \"{}/v1\"\nmodel = \"e5\"\n",
        service.url
    );
    std::fs::write(&config, section).unwrap();
    let out = folder.path().join("out");
    let mut command = node([
        "ocr",
        "--pipeline",
        "documents",
        "--engine",
        "e5",
        "--config-file",
    ]);
    command.arg(&config).arg("--out").arg(&out).arg(paper());
    finish(command).exits(0);
    let chunks: Vec<ChunkRow> = rows(&out, &layout("pdf-paper").chunks());
    let key = layout("pdf-paper").vectors();
    let vectors: Vec<VectorRow> = rows(&out, &key);
    for (vector, chunk) in vectors.iter().zip(&chunks) {
        let length = (chunk.text.len() as f32).hypot(3.0);
        assert_eq!(vector.dense.len(), 3);
        assert!((vector.dense[1] - 3.0 / length).abs() < 1e-6);
        assert!(vector.indices.len() > 20, "the sparse ones are ours");
    }
    let made = provenance::<VectorRow>(&out, &key);
    let names: Vec<&str> = made.models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["e5", "embeddings"]);
    assert_eq!(made.service.unwrap().model, "e5");
}

/// Rows: 84, 200.
#[test]
fn a_service_tells_the_blocks_of_pages() {
    let folder = tempfile::tempdir().unwrap();
    let answer = "<doctag><page_header><loc_50><loc_20><loc_450><loc_30>Running title</page_header>\n\
        <title><loc_50><loc_50><loc_450><loc_80>The drift</title>\n<text><loc_50><loc_90><loc_450><loc_200>It drifts.</text>\n\
        <otsl><loc_50><loc_210><loc_450><loc_300><ched>Place<ched>Drift<nl><fcel>Foshan<fcel>9.6<nl></otsl>\n</doctag>";
    let (mut busy, mut failing) = (1, 3);
    let service = Service::by(move |asked| {
        if asked.path.ends_with("/models") {
            return (200, json!({"data": [{"id": "granite-docling"}]}));
        }
        if !asked.path.ends_with("/chat/completions") {
            return (404, Value::Null);
        }
        if busy > 0 {
            busy -= 1;
            return (503, json!({"error": {"message": "loading"}}));
        }
        // The first page that is asked for goes wrong at each temperature.
        if failing > 0 {
            failing -= 1;
            return (200, completion("<doctag><text><loc_1><loc_2>cut"));
        }
        (200, completion(answer))
    });
    let config = folder.path().join("services.toml");
    let section = format!(
        "[service.granite]\nkind = \"openai\"\nurl = \"{}/v1\"\nmodel = \"granite-docling\"\n",
        service.url
    );
    std::fs::write(&config, section).unwrap();
    let out = folder.path().join("out");
    let read = || {
        let mut command = node(["ocr", "--pipeline", "documents", "--engine", "doctags=granite"]);
        command.args(["--workers", "1", "--config-file"]);
        command.arg(&config).arg("--out").arg(&out).arg(paper());
        finish(command)
    };
    read();
    let key = layout("pdf-paper").blocks();
    let blocks: Vec<BlockRow> = rows(&out, &key);
    assert_eq!(blocks.len(), 8, "two pages of four blocks, and one that failed");
    let roles: Vec<Role> = blocks[..4].iter().map(|block| block.role).collect();
    assert_eq!(roles, [Role::Header, Role::Title, Role::Text, Role::Table]);
    let (size, place) = (595.0 / 500.0, blocks[1].bbox_x0);
    assert!((place - 50.0 * size).abs() < 1.0, "{place}");
    assert!(
        blocks[2].size > 0.0,
        "the words of the page tell the height of the letters"
    );
    assert_eq!(blocks[3].cells[3].text, "9.6");
    let made = provenance::<BlockRow>(&out, &key);
    assert_eq!(made.models[0].name, "granite");
    assert_eq!(made.service.unwrap().served_models, ["granite-docling"]);
    let errors = layout("pdf-paper").errors(&"doctags".parse().unwrap());
    let errors: Vec<ErrorRow> = rows(&out, &errors);
    assert!(
        errors[0]
            .message
            .contains("the text ends within <text>: <doctag>"),
        "{}",
        errors[0].message
    );
    let manifest = out.join("manifests/documents/pdf-paper/parkhang.doctags.manifest.jsonl");
    let records = std::fs::read_to_string(manifest).unwrap();
    assert!(
        records.contains("\"parse_engine\":\"granite\"")
            && records.contains("\"model_name\":\"granite-docling\"")
    );

    // The page that failed is asked for again, the others are paid for.
    let asked = service.readings().len();
    read().exits(0);
    assert_eq!(service.readings().len(), asked + 1);
    let chunks: Vec<ChunkRow> = rows(&out, &layout("pdf-paper").chunks());
    assert!(chunks[0].text.starts_with("The drift"), "{}", chunks[0].text);
}
