//! The rules of ARCHITECTURE.md that a machine can see, each as a search over the tracked files.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Rust lines of one file that ship: what stands before its unit tests.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("tests.rs")
            || self.path.ends_with("golden.rs")
            || self.path.ends_with("conformance.rs")
            || self.path.contains("/conformance/")
    }

    /// Numbered lines of code before the unit tests, comments left out.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_owned()
}

pub(crate) fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(
        files.iter().any(|file| file == "Cargo.toml"),
        "git knows no files here"
    );
    files
        .into_iter()
        .filter(|file| root().join(file).is_file())
        .collect()
}

fn rust_sources() -> Vec<Source> {
    tracked()
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| Source {
            text: std::fs::read_to_string(root().join(&path)).unwrap(),
            path,
        })
        .collect()
}

pub(crate) fn report(rule: &str, broken: Vec<String>) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

/// Lines of shipped code that hold one of `needles`, in files that `applies` selects.
fn lines_with(needles: &[&str], applies: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in rust_sources()
        .iter()
        .filter(|source| !source.is_test() && applies(&source.path))
    {
        for (number, line) in source.code() {
            if needles.iter().any(|needle| line.contains(needle)) {
                found.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    found
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = tracked()
        .into_iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".py"))
        .filter_map(|path| {
            let lines = std::fs::read_to_string(root().join(&path))
                .unwrap()
                .lines()
                .count();
            (lines > 500).then(|| format!("{path}: {lines} lines"))
        });
    report("one idea a file, 500 lines at most", long.collect());
}

#[test]
fn shipped_code_does_not_unwrap() {
    let needles = [".unwrap()", "todo!(", "unimplemented!(", "dbg!("];
    report(
        "no unwrap, todo or dbg outside tests",
        lines_with(&needles, |_| true),
    );
}

#[test]
fn only_the_postgres_store_speaks_sql() {
    let needles = ["sqlx::", "SELECT ", "INSERT INTO", "DELETE FROM", "FOR UPDATE"];
    let found = lines_with(&needles, |path| !path.starts_with("actors/src/state/"));
    report("SQL lives in state/", found);
}

#[test]
fn only_the_layout_builds_keys() {
    let needles = ["\"jobs/", ".parquet\"", "/parts/"];
    let mut found = lines_with(&needles, |path| {
        path != "actors/src/artifact/layout.rs" && !path.starts_with("models/")
    });
    let is_media_type = |line: &String| line.contains("\"application/vnd.apache.parquet\"");
    found.retain(|line| !is_media_type(line));
    report("artifact keys are built in artifact/layout.rs alone", found);
}

#[test]
fn the_aws_sdk_stays_behind_its_traits() {
    let needles = ["aws_sdk", "aws_config"];
    let found = lines_with(&needles, |path| {
        let mut may = [
            "/storage/s3",
            "/queue/sqs",
            "/launcher/aws",
            "/launcher/ecs",
            "/launcher/asg",
        ]
        .iter();
        !may.any(|place| path.contains(place))
    });
    report(
        "only storage/s3, queue/sqs and the launchers of AWS name the AWS SDK",
        found,
    );
}

#[test]
fn only_models_names_burn() {
    let found = lines_with(&["burn::", "use burn"], |path| {
        !path.starts_with("models/") || path.starts_with("models/cv/")
    });
    report("tensors stay inside models and kernels", found);
}

#[test]
fn bincode_stays_in_its_codec() {
    let found = lines_with(&["bincode"], |path| path != "actors/src/wire/codec.rs");
    report("bincode is named in wire/codec.rs alone", found);
}

#[test]
fn domain_and_policy_are_pure() {
    let needles = [
        "tokio",
        "std::fs",
        "std::env",
        "Utc::now",
        "Instant::now",
        "SystemTime",
        "rand::",
        "async fn",
    ];
    let found = lines_with(&needles, |path| {
        path.starts_with("actors/src/domain/") || path.starts_with("actors/src/policy/")
    });
    report("domain and policy neither read clocks nor do I/O", found);
}

#[test]
fn models_do_no_io_but_reading_weights() {
    let needles = ["tokio", "std::fs", "File::open", "std::net"];
    let found = lines_with(&needles, |path| {
        let numeric = ["models/src/", "models/cv/src/", "models/kernels/src/"];
        numeric.iter().any(|folder| path.starts_with(folder))
            && !path.contains("/weights/")
            && !path.contains("/checkpoint/")
    });
    report("models take bytes and give data", found);
}

#[test]
fn dependencies_go_one_way() {
    let forbidden = [
        (
            "models/cv/Cargo.toml",
            &["parkhang-", "burn.workspace", "tokio", "tracing"][..],
        ),
        (
            "models/kernels/Cargo.toml",
            &["parkhang-", "tokio", "tracing"][..],
        ),
        (
            "models/Cargo.toml",
            &["parkhang-actors", "parkhang-node", "tokio", "sqlx", "ractor"][..],
        ),
        (
            "actors/Cargo.toml",
            &["parkhang-node", "burn.workspace", "clap", "anyhow"][..],
        ),
        ("node/Cargo.toml", &["sqlx", "burn.workspace"][..]),
    ];
    let mut broken = Vec::new();
    for (manifest, names) in forbidden {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        let dependencies = text.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        for name in names {
            if dependencies.lines().any(|line| line.starts_with(name)) {
                broken.push(format!("{manifest} depends on {name}"));
            }
        }
    }
    report("cv, kernels ← models ← actors ← node", broken);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let machine_paths = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/fa", "rm/"),
    ];
    let mut broken = Vec::new();
    for path in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if machine_paths.iter().any(|needle| line.contains(needle)) {
                broken.push(format!("{path}:{}", index + 1));
            }
        }
    }
    report("no path of one machine in the repository", broken);
}

#[test]
fn tests_do_not_sleep() {
    let sources = rust_sources();
    // One binary, one folder: its helpers sleep on the clock that its tests have paused.
    let paused: Vec<&str> = sources
        .iter()
        .filter(|source| source.text.contains(concat!("start_", "paused = true")))
        .filter_map(|source| source.path.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| source.is_test()) {
        let on_paused_time = paused.iter().any(|folder| source.path.starts_with(folder));
        for (index, line) in source.text.lines().enumerate() {
            let sleeps = line.contains(concat!("thread::", "sleep("))
                || (line.contains(concat!("time::", "sleep(")) && !on_paused_time);
            if sleeps {
                broken.push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    report("tests wait on events or paused time, never on a sleep", broken);
}
