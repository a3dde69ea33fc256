//! Link options of the program.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = is("TARGET", TARGET) && is("HOST", TARGET);
    if is("PROFILE", "release") && is_native && links_with_the_linker_of_rust() {
        // Many functions of generic code come out the same.
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
        if loads_packed_relocations() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Returns whether the program is linked with the linker that the toolchains of rustup bring along, and take by themselves. Others may not know
/// the options.
fn links_with_the_linker_of_rust() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_chosen = env::var_os("RUSTC_LINKER").is_some() || flags.contains("link");
    let linker = said(
        env::var_os("RUSTC").unwrap_or_default().into(),
        &["--print", "sysroot"],
    )
    .map(|root| PathBuf::from(root).join(format!("lib/rustlib/{TARGET}/bin/gcc-ld/ld.lld")));
    !is_chosen && linker.is_some_and(|linker| linker.exists())
}

/// Returns whether the C library of this machine, which is to load the program, can: from glibc 2.36 on.
fn loads_packed_relocations() -> bool {
    let version = said("getconf".into(), &["GNU_LIBC_VERSION"]);
    let minor = version.and_then(|version| version.strip_prefix("glibc 2.")?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 36)
}

fn said(program: PathBuf, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
