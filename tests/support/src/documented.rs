//! Pages of documentation that are generated from the code.

/// Compares a page of `docs` with the generated one, or writes it if `UPDATE_DOCS` is set.
///
/// # Panics
///
/// If the page is stale or cannot be written.
#[track_caller]
pub fn assert_documented(name: &str, page: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let stands = if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page).is_ok()
    } else {
        std::fs::read_to_string(&path).is_ok_and(|written| written == page)
    };
    assert!(stands, "docs/{name} is stale: run the tests with UPDATE_DOCS=1");
}
