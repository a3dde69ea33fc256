//! Tests of secrets.

use super::*;

#[test]
fn secrets_come_from_variables_and_private_files_only() {
    const SECRET: &str = "postgres://u:hunter2@db/x";
    let fixture = Fixture::new();
    let path = fixture.file(&format!("[state]\ndatabase_url = '{SECRET}'\n"));
    let found = problems(
        Some(&path),
        &[],
        &[&format!("state.database_url={SECRET}"), SECRET],
    );
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].contains("set PARKHANG_STATE__DATABASE_URL or DATABASE_URL or state.database_url_file"),
        "{found:?}"
    );
    assert!(!found.join(" ").contains("hunter2"), "{found:?}");

    let open = fixture.write("open", 0o644, SECRET);
    let problem = the_problem(&[&format!("state.database_url_file={}", open.display())]);
    assert!(
        problem.contains("mode 644") && !problem.contains("hunter2"),
        "{problem}"
    );

    let private = fixture.write("private", 0o600, &format!("{SECRET}\n"));
    let file = format!("state.database_url_file={}", private.display());
    for (variables, flags, origin) in [
        (&[("DATABASE_URL", SECRET)][..], &[][..], "DATABASE_URL"),
        (
            &[("DATABASE_URL", "")],
            &[file.as_str()],
            private.to_str().unwrap(),
        ),
        (
            &[("PARKHANG_STATE__DATABASE_URL", SECRET)],
            &[file.as_str()],
            "PARKHANG_STATE__DATABASE_URL",
        ),
    ] {
        let loaded = load(None, variables, flags).validated().unwrap();
        let shown = [
            show::toml(&loaded, true),
            show::json(&loaded, true).to_string(),
            format!("{loaded:?}"),
        ];
        assert!(
            shown[0].contains(&format!("# database_url: a secret from {origin}")),
            "{}",
            shown[0]
        );
        assert!(!shown.join(" ").contains("hunter2"), "{shown:?}");
    }
}

#[test]
fn a_short_cookie_or_another_database_is_refused() {
    let variables = [
        ("PARKHANG_CLUSTER__COOKIE", "short"),
        ("DATABASE_URL", "mysql://x"),
    ];
    let found = problems(None, &variables, &[]);
    assert!(
        found.len() == 2
            && found[0].contains("PARKHANG_CLUSTER__COOKIE: cluster.cookie: is shorter than 16 characters")
            && found[1].contains("DATABASE_URL: state.database_url: must begin with postgres://"),
        "{found:?}"
    );
    let variables = [("DATABASE_URL", "postgres://u:hunter2@db:port/x")];
    let found = problems(None, &variables, &[]);
    assert_eq!(
        found,
        [
            "DATABASE_URL: state.database_url: is not a URL of a database: postgres://USER:PASSWORD@HOST:PORT/DATABASE"
        ]
    );
}
