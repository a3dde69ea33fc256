//! What the integration tests share: sample pages, throw-away state and output folders.
