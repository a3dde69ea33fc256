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
    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("v/a.jpg"));
    let place = root.path().join("v/a.jpg");
    let of = |kind: std::io::ErrorKind| unreadable(&volume, "a.jpg", &place, &kind.into()).category();
    for kind in [
        std::io::ErrorKind::StaleNetworkFileHandle,
        std::io::ErrorKind::TimedOut,
        std::io::ErrorKind::Interrupted,
    ] {
        assert_eq!(of(kind), ErrorCategory::Network, "{kind}");
    }
    // EIO and EMFILE, which have no kinds of their own.
    for code in [5, 24] {
        let error = std::io::Error::from_raw_os_error(code);
        let error = unreadable(&volume, "a.jpg", &place, &error);
        assert_eq!(error.category(), ErrorCategory::Network, "{error}");
    }
    let denied = std::io::ErrorKind::PermissionDenied;
    assert_eq!(
        of(denied),
        ErrorCategory::Network,
        "nothing else can be opened there"
    );
    touch(root.path().join("v/c.jpg"));
    assert_eq!(of(denied), ErrorCategory::Input, "another page can be opened");

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

/// An unmounted file system leaves an empty folder, or none.
#[tokio::test]
async fn a_library_that_is_gone_is_an_outage_and_no_broken_page() {
    let place = tempfile::tempdir().unwrap();
    let (mounted, away) = (place.path().join("mounted"), place.path().join("away"));
    for name in ["W1-I1/a.jpg", "W1-I1/b.jpg", "W1-I2.pdf", "W1-I3.jpg"] {
        touch(mounted.join(name));
    }
    let places = ["W1-I1", "W1-I2.pdf", "W1-I3.jpg"].map(|name| mounted.join(name));
    let found = discover_volumes(&places, None, None).unwrap();
    let source = FolderSource::new(found);
    let [folder, pdf, image] = ["W1-I1", "W1-I2", "W1-I3"].map(|volume| volume.parse().unwrap());
    let page = source.pages(&folder).await.unwrap().remove(0);
    let only = source.pages(&image).await.unwrap().remove(0);

    std::fs::rename(&mounted, &away).unwrap();
    for is_empty_there in [false, true] {
        if is_empty_there {
            std::fs::create_dir(&mounted).unwrap();
        }
        for error in [
            source.pages(&folder).await.unwrap_err(),
            source.pages(&pdf).await.unwrap_err(),
            source.pages(&image).await.unwrap_err(),
            source.read(&folder, &page).await.unwrap_err(),
            source.read(&image, &only).await.unwrap_err(),
        ] {
            assert_eq!(error.category(), ErrorCategory::Network, "{error}");
        }
    }
    // Where the volume itself was mounted, its folder is left.
    std::fs::create_dir(mounted.join("W1-I1")).unwrap();
    let error = source.pages(&folder).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Network, "{error}");

    std::fs::remove_dir_all(&mounted).unwrap();
    std::fs::rename(&away, &mounted).unwrap();
    assert!(source.read(&folder, &page).await.is_ok());
    std::fs::remove_file(mounted.join("W1-I1/a.jpg")).unwrap();
    let error = source.read(&folder, &page).await.unwrap_err();
    assert!(matches!(error, PageSourceError::NoSuchPage { .. }), "{error}");
    std::fs::remove_dir_all(mounted.join("W1-I1")).unwrap();
    let error = source.pages(&folder).await.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Input, "{error}");
}

#[tokio::test]
async fn a_scan_that_is_too_large_is_a_broken_page_and_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    touch(root.path().join("W1-I1/a.jpg"));
    let source = FolderSource::new(discover_volumes(&[root.path().join("W1-I1")], None, None).unwrap());
    let volume = "W1-I1".parse().unwrap();
    // As long as no disk has to hold it.
    let file = std::fs::File::create(root.path().join("W1-I1/a.jpg")).unwrap();
    file.set_len(60 << 30).unwrap();
    let page = source.pages(&volume).await.unwrap().remove(0);
    let error = source.read(&volume, &page).await.unwrap_err();
    assert_eq!(error, page.too_large(&volume, 60 << 30));
    assert_eq!(error.category(), ErrorCategory::Input);
}
