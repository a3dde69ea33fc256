//! Volumes without text in an index.

mod requests;

use parkhang_search::{AddedVolume, IndexFolder, VolumeText, index_volume, search};

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
