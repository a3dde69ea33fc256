//! Model bundles: a directory of `model.json`, weights and a model card.
