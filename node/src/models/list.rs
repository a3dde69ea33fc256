//! The models that nodes would load: those of the program, and those that are installed.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use comfy_table::{Table, presets};
use parkhang_models::weights::{Bundle, WeightsError, shipped};
use serde::Serialize;

use crate::networks::{self, EMBEDDINGS, PRINT};

/// A model, or the reason why there is none.
#[derive(Debug, Serialize)]
struct Listed {
    /// Folder within that of models.
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Absent for a model that is compiled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<PathBuf>,
}

impl Listed {
    fn of(model: String, place: Option<PathBuf>, bundle: Result<Bundle, WeightsError>) -> Self {
        let (name, sha256, error) = match bundle {
            Ok(bundle) => (
                Some(bundle.name().to_owned()),
                Some(bundle.sha256().to_owned()),
                None,
            ),
            Err(error) => (None, None, Some(error.to_string())),
        };
        Self {
            model,
            name,
            sha256,
            error,
            place,
        }
    }
}

/// All models, in the order of the stages.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct List(Vec<Listed>);

impl List {
    /// Looks where nodes look. The checksums of all files are compared.
    pub fn of(folder: Option<&Path>) -> Self {
        let mut models = vec![
            Listed::of("line-segmenter".to_owned(), None, shipped::line_segmenter()),
            Listed::of("recogniser".to_owned(), None, shipped::recogniser()),
        ];
        let print = parkhang_words::FOLDERS
            .into_iter()
            .chain(parkhang_words::LAYOUT_FOLDERS);
        let embeddings = parkhang_embeddings::FOLDERS.into_iter();
        for (purpose, folders, found) in [
            (PRINT, print.collect::<Vec<_>>(), networks::print_folder(folder)),
            (
                EMBEDDINGS,
                embeddings.collect(),
                networks::embeddings_folder(folder),
            ),
        ] {
            match found {
                Err(error) => models.push(Listed {
                    model: purpose.to_owned(),
                    name: None,
                    sha256: None,
                    error: Some(error.to_string()),
                    place: None,
                }),
                Ok(place) => models.extend(folders.into_iter().map(|folder| {
                    let place = place.join(folder);
                    let bundle = Bundle::open(&place);
                    Listed::of(format!("{purpose}/{folder}"), Some(place), bundle)
                })),
            }
        }
        Self(models)
    }

    /// True if all models are there.
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|model| model.error.is_none())
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Digits that tell models apart.
        const SHOWN: usize = 12;
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_header(["MODEL", "NAME", "SHA-256", "PLACE"]);
        for model in &self.0 {
            let sha256 = model.sha256.as_deref().and_then(|digits| digits.get(..SHOWN));
            let place = model.place.as_ref().map(|place| place.display().to_string());
            let place = place.unwrap_or_else(|| "in the program".to_owned());
            table.add_row([
                &model.model,
                model.name.as_deref().unwrap_or("-"),
                sha256.unwrap_or("-"),
                model.error.as_deref().unwrap_or(&place),
            ]);
        }
        write!(f, "{}", table.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_are_there_are_listed_and_others_with_the_reason() {
        let all = List::of(None);
        assert!(all.is_complete(), "{all}");
        let text = all.to_string();
        for name in [
            "parkhang-recogniser",
            "print/layout",
            "embeddings/dense",
            "use-multilingual-v3",
            "splade-tiny",
        ] {
            assert!(text.contains(name), "{text}");
        }
        let nowhere = List::of(Some(Path::new("/nowhere/at/all")));
        assert!(!nowhere.is_complete());
        let models = serde_json::to_value(&nowhere).unwrap();
        assert!(
            models[3]["error"].as_str().unwrap().contains("/nowhere/at/all"),
            "{models}"
        );
        assert_eq!(models[0].get("error"), None);
    }
}
