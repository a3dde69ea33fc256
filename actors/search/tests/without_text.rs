//! Volumes without text, and chunks without vectors, in an index.

mod requests;

use parkhang_search::{AddedVolume, ChunkText, IndexFolder, VolumeText, index_volume, search};

use self::requests::{FUZZY, request};

#[test]
fn volumes_without_text_are_replaced_and_searched_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().to_owned());
    let mut writer = index.writer().unwrap();
    for (version, number) in [0, 0, 4, 1, 4, 0, 3, 0].into_iter().enumerate() {
        let name = format!("W{number}-I1");
        let text = VolumeText {
            volume: name.clone(),
            ..VolumeText::default()
        };
        let packed = index_volume(&text).unwrap();
        let empty = AddedVolume::open(&name, &version.to_string(), &packed).unwrap();
        writer.update(vec![empty], &[]).unwrap();
    }
    while writer.compact().unwrap() {}
    let snapshot = index.snapshot().unwrap();
    assert_eq!(snapshot.volumes().len(), 4);
    assert_eq!(
        search(&[&snapshot], &request("rent", FUZZY), &|| false)
            .unwrap()
            .total,
        0
    );
}

#[test]
fn chunks_without_vectors_are_of_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let index = IndexFolder::new(folder.path().to_owned());
    let chunk = ChunkText {
        page: 1,
        language: "bo".to_owned(),
        text: "བྱང་ཆུབ".to_owned(),
        dense: Vec::new(),
        terms: vec![(1, 1.0)],
    };
    let text = VolumeText {
        volume: "W1-I1".to_owned(),
        chunks: vec![chunk],
        model: "sha256:1".to_owned(),
        ..VolumeText::default()
    };
    let volume = AddedVolume::open("W1-I1", "1", &index_volume(&text).unwrap()).unwrap();
    index.writer().unwrap().update(vec![volume], &[]).unwrap();
    let snapshot = index.snapshot().unwrap();
    assert!(snapshot.has_chunks() && !snapshot.has_vectors_of_others("sha256:2"));
}
