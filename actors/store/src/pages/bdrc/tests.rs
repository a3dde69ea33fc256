use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::*;
use crate::storage::MemoryArtifacts;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/volumes")
}

pub(super) fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(golden().join(file)).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    match file["cases"].take() {
        Value::Array(cases) => cases,
        _ => panic!("no cases"),
    }
}

/// Rows: F26.
#[test]
fn folders_are_those_of_the_archive() {
    let mut checked = 0;
    for case in cases("prefixes.json") {
        let text = |field: &str| case[field].as_str().unwrap();
        // Ids that no volume has cannot be made.
        let Ok(volume) = VolumeId::new(text("w_id"), text("i_id")) else {
            continue;
        };
        assert_eq!(format!("{}/", image_folder(&volume)), text("image_prefix"));
        assert_eq!(
            format!("{}/{MANIFEST}", image_folder(&volume)),
            text("manifest_key")
        );
        let (_, name) = image_folder(&volume)
            .rsplit_once('/')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        let old = volume_of_folder(&name).unwrap();
        assert_eq!(image_folder(&old), image_folder(&volume));
        checked += 1;
    }
    assert!(checked >= 40, "{checked}");
}

/// Rows: F24.
#[test]
fn versions_are_the_hashes_that_outputs_are_named_by() {
    let mut checked = 0;
    for case in cases("artifacts.json") {
        if case["resolved"]["source"] != "bdrc" {
            continue;
        }
        let version = VolumeVersion::from_etag(case["s3_etag"].as_str().unwrap());
        let basename = case["basename"].as_str().unwrap();
        assert_eq!(version.short(), basename.rsplit('-').next().unwrap(), "{case}");
        if let Some(hex) = case["etag_bytes_hex"].as_str() {
            assert_eq!(version.as_str(), hex);
        }
        checked += 1;
    }
    assert!(checked >= 5, "{checked}");
}

/// Rows: F24, F25, 111.
#[test]
fn lists_are_read_as_the_fleet_reads_them() {
    let mut checked = 0;
    for case in cases("manifests.json") {
        let Some(file) = case["file"].as_str() else {
            continue;
        };
        let read = ImageList::read(&std::fs::read(golden().join(file)).unwrap());
        match case["kept"].as_array() {
            // The fleet stumbles over these two, though there is no doubt about what they say.
            None if ["not_gzip", "utf8_bom"].contains(&case["name"].as_str().unwrap()) => {
                assert!(!read.unwrap().images.is_empty(), "{file}");
            }
            None => assert!(read.is_err(), "{file}: {read:?}"),
            Some(kept) => {
                // The fleet reads a page twice that is listed twice.
                let mut expected: Vec<&str> = Vec::new();
                for name in kept.iter().map(|name| name.as_str().unwrap()) {
                    if !expected.contains(&name) {
                        expected.push(name);
                    }
                }
                let images = read.unwrap().images;
                let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
                assert_eq!(names, expected, "{file}");
            }
        }
        checked += 1;
    }
    assert_eq!(checked, 20);
}

fn gzipped(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

async fn archive() -> (BdrcArchive, VolumeId) {
    let store = MemoryArtifacts::new();
    let put = async |name: &str, bytes: Bytes| {
        let key = format!("Works/60/W22084/images/W22084-0886/{name}");
        store.put(&ArtifactKey::new(key).unwrap(), bytes).await.unwrap();
    };
    let list = r#"[{"filename":"dimensions.json"},{"filename":"08860001.tif"},{"filename":"08860002.tif"},
        {"filename":"08860003.tif","size":1234567},{"filename":"..tif"},{"filename":"sub/x.tif"}]"#;
    put(MANIFEST, gzipped(list)).await;
    put("08860001.tif", "credits".into()).await;
    put("08860003.tif", "text".into()).await;
    let volume = VolumeId::new("W22084", "I0886").unwrap();
    (BdrcArchive::new(Arc::new(store)), volume)
}

#[tokio::test]
async fn pages_are_read_from_beside_their_list() {
    let (archive, volume) = archive().await;
    let pages = archive.pages(&volume).await.unwrap();
    assert_eq!(pages.len(), 4);
    assert_eq!(pages[2].size, 1_234_567);
    assert_eq!(
        archive.read(&volume, &pages[2]).await.unwrap().image().unwrap(),
        "text"
    );
    // Listed, yet not there; and a name that no store can hold.
    for (page, category) in [(1, ErrorCategory::Input), (3, ErrorCategory::Input)] {
        let error = archive.read(&volume, &pages[page]).await.unwrap_err();
        assert_eq!(error.category(), category, "{error}");
    }
    let elsewhere = PageRef {
        name: "../W22084-0887/1.tif".to_owned(),
        size: 0,
        version: None,
    };
    let error = archive.read(&volume, &elsewhere).await.unwrap_err();
    assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");
}

#[tokio::test]
async fn pages_before_the_book_are_left_out_where_they_are_counted() {
    let (archive, volume) = archive().await;
    for (intro, first) in [(0, Some("08860001.tif")), (2, Some("08860003.tif")), (9, None)] {
        let archive = archive
            .clone()
            .without_intro_pages(BTreeMap::from([(volume.clone(), intro)]));
        let pages = archive.pages(&volume).await.unwrap();
        assert_eq!(pages.first().map(|page| page.name.as_str()), first);
        assert_eq!(archive.manifest(&volume).await.unwrap().list.images.len(), 4);
    }
}

/// Rows: F24.
#[tokio::test]
async fn the_version_follows_the_list() {
    let (archive, volume) = archive().await;
    let read = archive.manifest(&volume).await.unwrap();
    assert_eq!(
        archive.manifest_if_changed(&volume, &read.etag).await.unwrap(),
        None
    );
    let before = read.version();
    assert_eq!(before.as_str().len(), 32);
    for page in archive.pages(&volume).await.unwrap() {
        assert_eq!(page.version.as_deref(), Some(before.as_str()));
    }
    let key = ArtifactKey::new(format!("{}/{MANIFEST}", image_folder(&volume))).unwrap();
    let broken = archive.store.put(&key, "[".into()).await;
    broken.unwrap();
    let error = archive.manifest(&volume).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Input);
    archive.store.put(&key, gzipped("[]")).await.unwrap();
    let emptied = archive.manifest_if_changed(&volume, &read.etag).await;
    let emptied = emptied.unwrap().unwrap();
    assert_ne!(emptied.version(), before);
    assert!(emptied.into_pages().is_empty());
    archive.store.delete(&key).await.unwrap();
    let error = archive.manifest(&volume).await.unwrap_err();
    assert_eq!(error, PageSourceError::NoSuchVolume(volume));
}

#[tokio::test]
async fn the_volumes_of_a_collection_are_those_with_a_folder() {
    let (archive, volume) = archive().await;
    for place in ["W22084-I1KG1/x.tif", "other/x.tif", "W1-I1/x.tif"] {
        let key = ArtifactKey::new(format!("Works/60/W22084/images/{place}")).unwrap();
        archive.store.put(&key, "scan".into()).await.unwrap();
    }
    let volumes = archive.volumes_of("W22084").await.unwrap();
    assert_eq!(volumes, [volume, VolumeId::new("W22084", "I1KG1").unwrap()]);
    assert_eq!(archive.volumes_of("W2208").await.unwrap(), []);
}

#[test]
fn a_list_that_unpacks_without_end_is_refused() {
    let bomb = gzipped(&" ".repeat(MAX_LIST + 1));
    assert!(matches!(ImageList::read(&bomb), Err(ManifestError::TooLong)));
}

const MAX_LIST: usize = 64 << 20;
