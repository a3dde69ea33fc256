//! Pages of documentation that are generated from the code.

/// Compares a page of the documentation with the generated one, or writes it if `UPDATE_DOCS` is set.
#[track_caller]
pub fn assert_documented(name: &str, page: &str) {
    let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let stands = match std::env::var_os("UPDATE_DOCS") {
        Some(_) => std::fs::write(&path, page).is_ok(),
        None => std::fs::read_to_string(&path).is_ok_and(|written| written == page),
    };
    assert!(stands, "docs/{name} is stale: run the tests with UPDATE_DOCS=1");
}
