//! Installation of models.

use std::cmp::Reverse;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use parkhang_models::device::ComputeDevice;

use super::contents::{self, Limits};
use crate::networks::{self, EMBEDDINGS, PRINT};

/// Folders below the top of an archive in which the models may lie.
const DEPTH: usize = 3;

/// Models in their place.
#[derive(Debug)]
pub struct Installed {
    pub place: PathBuf,
    /// SHA-256 that identifies them.
    pub sha256: String,
    /// Reason for which a stage cannot run with what is there.
    pub lack: Option<&'static str>,
}

/// Puts the models that `file` holds into the folder of models, from which a node loads them. Those of a purpose are exchanged as one.
///
/// # Errors
///
/// If `file` holds none, one cannot be opened, or the folder cannot be written. What was there before then stays.
pub fn install(file: &Path, folder: &Path) -> Result<Vec<Installed>> {
    let unwritable = || {
        format!(
            "cannot install models in {}: --models-dir names another folder",
            folder.display()
        )
    };
    fs::create_dir_all(folder).with_context(unwritable)?;
    // Within the folder itself, so that it takes its place by its name alone.
    let staging = tempfile::Builder::new().prefix(".models-").tempdir_in(folder);
    let staging = staging.with_context(unwritable)?;
    let copied = staging.path().join("new");
    fs::create_dir(&copied).with_context(unwritable)?;
    contents::copy(file, &copied, Limits::OF_MODELS)?;
    let device = ComputeDevice::open(&networks::parse_device("cpu-f32", NonZeroUsize::MIN)?)?;
    let mut opened = Vec::new();
    let purposes: [(&str, Recognise, Open); 2] = [
        (PRINT, parkhang_words::is_print_models, open_print),
        (
            EMBEDDINGS,
            parkhang_embeddings::is_embedding_models,
            open_embeddings,
        ),
    ];
    for (name, recognise, open) in purposes {
        let Some(models) = found(&copied, DEPTH, recognise)? else {
            continue;
        };
        let sha256 = open(&models, &device).with_context(|| format!("the models of {}", file.display()))?;
        opened.push((name, models, sha256));
    }
    if opened.is_empty() {
        bail!(
            "{} holds neither the models that read print, the folders {}, nor those that embed texts, {}; each has a model.json",
            file.display(),
            parkhang_words::FOLDERS.join(", "),
            parkhang_embeddings::FOLDERS.join(", ")
        );
    }
    // Each takes its place as a whole folder, so that one cannot be that of two.
    if let [(_, print, _), (_, embeddings, _)] = opened.as_slice()
        && print == embeddings
    {
        bail!(
            "{} has the models of two purposes in one folder: put {} into a folder of their own",
            file.display(),
            parkhang_embeddings::FOLDERS.join(" and ")
        );
    }
    // Of two folders one may lie in the other: the inner one is taken out first.
    opened.sort_by_key(|(_, models, _)| Reverse(models.components().count()));
    let put = opened.into_iter().map(|(name, models, sha256)| {
        let place = folder.join(name);
        exchange(&models, &place, &staging.path().join(format!("old-{name}")))
            .with_context(|| format!("cannot put the models at {}", place.display()))?;
        let lacks_layout = name == PRINT && !parkhang_words::is_layout_models(&place);
        Ok(Installed {
            place,
            sha256,
            lack: lacks_layout.then_some(
                "the folders layout and table are not among them: the pipeline documents needs them",
            ),
        })
    });
    put.collect()
}

/// Tells whether a folder has the models of a purpose, by names alone.
type Recognise = fn(&Path) -> bool;

/// Opens models, and returns the hash that identifies them.
type Open = fn(&Path, &ComputeDevice) -> Result<String>;

fn open_print(models: &Path, device: &ComputeDevice) -> Result<String> {
    let print = parkhang_words::load(models, device)?;
    if parkhang_words::is_layout_models(models) {
        parkhang_words::load_layout(models, device)?;
    }
    Ok(print.sha256)
}

fn open_embeddings(models: &Path, device: &ComputeDevice) -> Result<String> {
    Ok(parkhang_embeddings::load(models, device)?.sha256)
}

/// Folder of the models, at most so many folders below.
fn found(folder: &Path, depth: usize, recognise: Recognise) -> Result<Option<PathBuf>> {
    if recognise(folder) {
        return Ok(Some(folder.to_owned()));
    }
    if depth == 0 {
        return Ok(None);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir()
            && let Some(models) = found(&path, depth - 1, recognise)?
        {
            return Ok(Some(models));
        }
    }
    Ok(None)
}

/// Moves `new` to `place`, and what is there to `old`; where that fails, all is as it was.
fn exchange(new: &Path, place: &Path, old: &Path) -> std::io::Result<()> {
    let replaces = fs::symlink_metadata(place).is_ok();
    if replaces {
        fs::rename(place, old)?;
    }
    let moved = fs::rename(new, place);
    if moved.is_err() && replaces {
        fs::rename(old, place)?;
    }
    moved
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::whole_file::testing::names;

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/weights/print")
    }

    fn archive(of: &Path, under: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let encoder = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        builder.append_dir_all(under, of).unwrap();
        builder.into_inner().unwrap().finish().unwrap();
        file
    }

    #[test]
    fn models_of_an_archive_and_of_a_folder_are_found_by_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new/models");
        let packed = archive(&shipped(), "parkhang-models/print");
        let installed = install(packed.path(), &folder).unwrap().remove(0);
        assert_eq!(networks::print_folder(Some(&folder)).unwrap(), installed.place);
        fs::write(installed.place.join("stale"), "of the models before").unwrap();
        let again = install(&shipped(), &folder).unwrap().remove(0);
        assert_eq!(again.sha256, installed.sha256);
        assert_eq!(names(&folder), ["print"]);
        assert!(!again.place.join("stale").exists());
        assert!(again.place.join("LICENSE").exists());
    }

    #[test]
    fn models_that_embed_texts_are_installed_beside_those_that_read_print() {
        let folder = tempfile::tempdir().unwrap();
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/weights");
        let installed = install(&all, folder.path()).unwrap();
        let mut there = names(folder.path());
        there.sort();
        assert_eq!(there, ["embeddings", "print"]);
        let embeddings = networks::embeddings_folder(Some(folder.path())).unwrap();
        assert_eq!(installed[1].place, embeddings);
        assert!(
            networks::tokenizer_file(Some(folder.path()))
                .unwrap()
                .starts_with(&embeddings)
        );
    }

    /// Copies folders of models into another folder.
    fn copy_models(names: &[&str], from: &Path, to: &Path) {
        for name in names {
            fs::create_dir_all(to.join(name)).unwrap();
            for entry in fs::read_dir(from.join(name)).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), to.join(name).join(entry.file_name())).unwrap();
            }
        }
    }

    #[test]
    fn models_of_which_some_lie_among_the_others_are_installed_apart() {
        let from = tempfile::tempdir().unwrap();
        copy_models(&parkhang_words::FOLDERS, &shipped(), from.path());
        copy_models(
            &parkhang_embeddings::FOLDERS,
            &shipped().join("../embeddings"),
            &from.path().join("embeddings"),
        );
        let folder = tempfile::tempdir().unwrap();
        install(from.path(), folder.path()).unwrap();
        let mut there = names(folder.path());
        there.sort();
        assert_eq!(there, ["embeddings", "print"]);
        assert!(!folder.path().join("print/embeddings").exists());
    }

    #[test]
    fn models_that_cannot_be_opened_leave_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("print");
        fs::create_dir(&place).unwrap();
        File::create(place.join("mine")).unwrap();

        let damaged = tempfile::tempdir().unwrap();
        copy_models(&parkhang_words::FOLDERS, &shipped(), damaged.path());
        let weights = damaged.path().join("detector/weights.safetensors");
        let mut bytes = fs::read(&weights).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&weights, bytes).unwrap();
        let refused = format!("{:#}", install(damaged.path(), folder.path()).unwrap_err());
        assert!(refused.contains("weights.safetensors"), "{refused}");

        let empty = tempfile::tempdir().unwrap();
        let refused = install(empty.path(), folder.path()).unwrap_err();
        assert!(
            refused.to_string().contains("orientation, detector, recognizer")
                && refused.to_string().contains("dense, sparse"),
            "{refused}"
        );
        assert_eq!(names(folder.path()), ["print"]);
        assert_eq!(names(&place), ["mine"]);
    }
}
