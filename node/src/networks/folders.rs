//! Folders of the models that are not part of the program.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Name of the models that see the layout of pages; they lie in the folder of those that read print.
pub(super) const LAYOUT: &str = "layout";

/// Finds the models that see the layout of pages, as [`print_folder`] finds those that read print.
///
/// # Errors
///
/// If they are not there, or of a version from before there were any.
pub fn layout_folder(folder: Option<&Path>) -> Result<PathBuf> {
    let print = print_folder(folder)?;
    if parkhang_words::is_layout_models(&print) {
        return Ok(print);
    }
    bail!(
        "the models in {} are of an older version, without those that see the layout of pages: `node models install FILE` replaces them",
        print.display()
    )
}

/// Folder of the models that read print, within the folder of models; also their name.
pub const PRINT: &str = "print";

/// Name of the tokenizer of the model that embeds texts.
pub(super) const TOKENIZER: &str = "tokenizer";

/// Folder of the models that embed texts, within the folder of models; also their name.
pub const EMBEDDINGS: &str = "embeddings";

/// Finds the models that embed texts, as [`print_folder`] finds those that read print.
///
/// # Errors
///
/// If they are not there.
pub fn embeddings_folder(folder: Option<&Path>) -> Result<PathBuf> {
    let places = folder.map_or_else(usual_folders, |folder| vec![folder.to_owned()]);
    let mut folders = places.iter().map(|place| place.join(EMBEDDINGS));
    let found = folders.find(|place| parkhang_embeddings::is_embedding_models(place));
    found.with_context(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "the models that embed texts are not in {}: --models-dir or models.dir names the folder that has them in {EMBEDDINGS}/, and `node models install FILE` puts them there",
            places.join(" or ")
        )
    })
}

/// File of the tokenizer within the folder of models.
const TOKENIZER_FILE: &str = "embeddings/dense/sp.model";

/// Finds the tokenizer of the model that embeds texts, as [`print_folder`] finds the models that read print.
///
/// # Errors
///
/// If it is not there.
pub fn tokenizer_file(folder: Option<&Path>) -> Result<PathBuf> {
    let places = folder.map_or_else(usual_folders, |folder| vec![folder.to_owned()]);
    let mut files = places.iter().map(|place| place.join(TOKENIZER_FILE));
    let found = files.find(|file| file.is_file());
    found.with_context(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "the tokenizer of the model that embeds texts is not in {}: --models-dir or models.dir names the folder that has it as {TOKENIZER_FILE}, and `node models install FILE` puts it there",
            places.join(" or ")
        )
    })
}

/// Finds the models that read print: in `folder`, or where they usually are, beside the program.
///
/// # Errors
///
/// If they are not there.
pub fn print_folder(folder: Option<&Path>) -> Result<PathBuf> {
    let places = folder.map_or_else(usual_folders, |folder| vec![folder.to_owned()]);
    let found = places
        .iter()
        .map(|place| place.join(PRINT))
        .find(|place| parkhang_words::is_print_models(place));
    found.with_context(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!(
            "the models that read print are not in {}: --models-dir or models.dir names the folder that has them in {PRINT}/, and `node models install FILE` puts them there",
            places.join(" or ")
        )
    })
}

/// Folder of models of the program: of those beside it the one that is there, or else the first.
///
/// # Errors
///
/// If the system does not say where the program is.
pub fn folder_beside_program() -> Result<PathBuf> {
    let folders = folders_beside_program();
    let there = folders.iter().find(|folder| folder.is_dir());
    let folder = there.or(folders.first()).cloned();
    folder.context("where the program is cannot be found out: --models-dir names the folder of models")
}

/// Folders of models beside the program, as archives and packages lay it out; none if the system does not say where it is.
fn folders_beside_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(|program| program.canonicalize());
    let program = program.ok();
    let beside = program.as_deref().and_then(Path::parent);
    beside
        .iter()
        .flat_map(|beside| [beside.join("models"), beside.join("../share/parkhang/models")])
        .collect()
}

/// Folders of models beside the program, and that of the source that it was built from.
fn usual_folders() -> Vec<PathBuf> {
    let mut folders = folders_beside_program();
    folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/weights"));
    folders
}
