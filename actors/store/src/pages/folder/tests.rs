use super::*;
use crate::pages::pdf::testing::pdf;

fn touch(path: PathBuf) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, b"x").unwrap();
}

#[test]
fn images_below_a_volume_are_told_of() {
    let root = tempfile::tempdir().unwrap();
    for name in ["W1-I1/a.jpg", "W1-I1/more/b.jpg", "W1-I1/notes/x.txt"] {
        touch(root.path().join(name));
    }
    let volumes = discover_volumes(&[root.path().to_owned()], None, None).unwrap();
    let left_out = folders_left_out(&volumes);
    assert_eq!(left_out.len(), 1);
    assert!(left_out[0].ends_with("W1-I1/more"));
}

#[tokio::test]
async fn folders_of_folders_are_volumes_and_junk_is_not_a_page() {
    let root = tempfile::tempdir().unwrap();
    for name in [
        "W1-I1/b.jpg",
        "W1-I1/a.TIF",
        "W1-I1/.jpg",
        "W1-I1/dimensions.json",
        "W1-I2/a.png",
        "notes/x.txt",
    ] {
        touch(root.path().join(name));
    }
    let volumes = discover_volumes(&[root.path().to_owned()], None, None).unwrap();
    assert_eq!(
        volumes.iter().map(|v| v.volume.to_string()).collect::<Vec<_>>(),
        ["W1-I1", "W1-I2"]
    );
    let source = FolderSource::new(volumes);
    let pages = source.pages(&"W1-I1".parse().unwrap()).await.unwrap();
    assert_eq!(
        pages.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["a.TIF", "b.jpg"]
    );
}

#[tokio::test]
async fn a_page_name_cannot_leave_the_volume() {
    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("v/a.jpg"));
    touch(root.path().join("secret.jpg"));
    let source = FolderSource::new(discover_volumes(&[root.path().join("v")], Some("W"), Some("I")).unwrap());
    let page = PageRef {
        name: "../secret.jpg".into(),
        size: 1,
        version: None,
    };
    let error = source.read(&"W-I".parse().unwrap(), &page).await.unwrap_err();
    assert!(matches!(error, PageSourceError::NoSuchPage { .. }));
}

#[tokio::test]
async fn an_error_that_may_pass_is_not_blamed_on_the_page() {
    let volume: VolumeId = "W-I".parse().unwrap();
    let of = |kind: std::io::ErrorKind| unreadable(&volume, "a.jpg", &kind.into()).category();
    for kind in [
        std::io::ErrorKind::StaleNetworkFileHandle,
        std::io::ErrorKind::TimedOut,
        std::io::ErrorKind::Interrupted,
    ] {
        assert_eq!(of(kind), ErrorCategory::Network, "{kind}");
    }
    // EIO, which has no kind of its own.
    let broken = std::io::Error::from_raw_os_error(5);
    assert_eq!(
        unreadable(&volume, "a.jpg", &broken).category(),
        ErrorCategory::Network
    );
    assert_eq!(of(std::io::ErrorKind::PermissionDenied), ErrorCategory::Input);

    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("v/a.jpg"));
    std::fs::create_dir(root.path().join("v/b.jpg")).unwrap();
    let source = FolderSource::new(discover_volumes(&[root.path().join("v")], Some("W"), Some("I")).unwrap());
    let folder = PageRef {
        name: "b.jpg".into(),
        size: 1,
        version: None,
    };
    let error = source.read(&volume, &folder).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Input);
}

#[test]
fn two_folders_for_one_volume_are_refused() {
    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("a/W1-I1/p.jpg"));
    touch(root.path().join("b/W1-I1/p.jpg"));
    let roots = [root.path().join("a"), root.path().join("b")];
    assert!(matches!(
        discover_volumes(&roots, None, None),
        Err(DiscoverError::Ambiguous { .. })
    ));
}

#[tokio::test]
async fn pdfs_are_volumes_and_so_is_an_image_that_is_named() {
    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("scans/W1-I1.jpg"));
    std::fs::write(root.path().join("scans/W1-I2.pdf"), pdf(2)).unwrap();
    std::fs::write(root.path().join("scans/W1-I3.PDF"), "no PDF").unwrap();
    let scans = root.path().join("scans");
    let found = discover_volumes(&[scans.join("W1-I1.jpg"), scans.clone()], Some("W1"), None);
    let found: Vec<(VolumeKind, String)> = found
        .unwrap()
        .into_iter()
        .map(|found| (found.kind, found.volume.to_string()))
        .collect();
    let expected = [
        (VolumeKind::Image, "W1-I1"),
        (VolumeKind::Folder, "W1-scans"),
        (VolumeKind::Pdf, "W1-I2"),
        (VolumeKind::Pdf, "W1-I3"),
    ];
    assert_eq!(found, expected.map(|(kind, name)| (kind, name.to_owned())));

    let source = FolderSource::new(discover_volumes(&[scans], Some("W1"), None).unwrap());
    let good: VolumeId = "W1-I2".parse().unwrap();
    let pages = source.pages(&good).await.unwrap();
    let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(names, ["page_1", "page_2"]);
    assert!(pages[0].version.is_some(), "nothing is read again for its hash");
    let scan = source.read(&good, &pages[1]).await.unwrap();
    let text = scan.text().unwrap().unwrap();
    assert_eq!(text.verdict.kind, parkhang_pdf::VerdictKind::Blank);
    assert_eq!((text.size.width, text.size.height), (200.0, 100.0));
    assert!(scan.digest() != source.read(&good, &pages[0]).await.unwrap().digest());
    let beyond = PageRef {
        name: "page_3".to_owned(),
        ..pages[0].clone()
    };
    let error = source.read(&good, &beyond).await.unwrap_err();
    assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");

    let part = source.pages(&"W1-I2@2_7".parse().unwrap()).await.unwrap();
    let names: Vec<&str> = part.iter().map(|page| page.name.as_str()).collect();
    assert_eq!(
        names,
        ["page_2", "page_7"],
        "of a part each page is listed that was asked for"
    );
    let of_images = source.pages(&"W1-scans@1".parse().unwrap()).await.unwrap_err();
    assert!(
        matches!(of_images, PageSourceError::NoSuchVolume(_)),
        "{of_images}"
    );

    let bad: VolumeId = "W1-I3".parse().unwrap();
    let error = source.pages(&bad).await.unwrap_err();
    assert!(matches!(error, PageSourceError::Pdf { .. }), "{error}");
    assert_eq!(error.category(), ErrorCategory::Input);
    assert!(error.to_string().contains("W1-I3.PDF"), "{error}");
}
