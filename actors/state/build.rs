//! List of the migrations for the program to carry, written as a Rust expression to `OUT_DIR/migrations.rs`.
//!
//! `sqlx::migrate!` would do the same, but its macros compile the database driver a second time, for the compiler.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("../../migrations").canonicalize()?;
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut paths = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    // A folder lists its files in no order, and migrations are applied in that of their numbers.
    paths.sort();

    let mut list = String::from("&[\n");
    for path in paths {
        let (version, description) = version_and_description(&path)
            .ok_or_else(|| io::Error::other(format!("{}: not NUMBER_WHAT_IT_DOES.sql", path.display())))?;
        writeln!(list, "({version}, {description:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets no OUT_DIR"))?;
    fs::write(Path::new(&out).join("migrations.rs"), list)
}

fn version_and_description(path: &Path) -> Option<(i64, String)> {
    let (version, description) = path
        .file_name()?
        .to_str()?
        .strip_suffix(".sql")?
        .split_once('_')?;
    Some((version.parse().ok()?, description.replace('_', " ")))
}
