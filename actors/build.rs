/// `sqlx::migrate!` embeds the folder but does not make the build depend on it.
fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
