//! Profiles of a configuration file.

use super::*;

const TEXT: &str = "[job]\nworkers = 2\nretries = 1\n\n[profile.large.job]\nworkers = 16\n\n[profile.large.node]\nstate_dir = 'state'\n\n\
    [profile.small]\n'job.workers' = 1\n";

fn with_profile(file: &Path, profile: &str, variables: &[(&str, &str)], flags: &[&str]) -> Loaded {
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Loaded::from_layers(Some(file), Some(profile), &variables.collect(), &flags, &[]).unwrap()
}

/// Rows: 164.
#[test]
fn a_profile_goes_above_its_file_and_below_the_environment_and_flags() {
    let fixture = Fixture::new();
    let file = fixture.file(TEXT);
    let workers = |loaded: &Loaded| {
        (
            loaded.config.job.workers,
            loaded.settings["job.workers"].origin.to_string(),
        )
    };
    let place = |line: usize, profile: &str| format!("{}:{line} (profile {profile})", file.display());
    assert_eq!(load(Some(&file), &[], &[]).config.job.workers, 2);
    let large = with_profile(&file, "large", &[], &[]);
    assert_eq!(workers(&large), (16, place(6, "large")));
    assert_eq!(large.config.job.retries, 1, "from the rest of the file");
    assert_eq!(large.config.node.state_dir, Some(fixture.0.path().join("state")));
    assert_eq!(
        workers(&with_profile(&file, "small", &[], &[])),
        (1, place(12, "small"))
    );
    let variable = ("PARKHANG_JOB__WORKERS", "3");
    assert_eq!(
        workers(&with_profile(&file, "large", &[variable], &[])),
        (3, variable.0.to_owned())
    );
    let flag = "job.workers=4";
    assert_eq!(
        workers(&with_profile(&file, "large", &[variable], &[flag])),
        (4, "--set".to_owned())
    );
}

#[test]
fn mistakes_of_profiles_are_found_whichever_is_chosen() {
    let fixture = Fixture::new();
    let file = fixture.file(&format!(
        "{TEXT}[profile.odd.job]\nwrokers = 1\n[profile.odder]\nnode = 1\n"
    ));
    let problems = |profile: &str| -> Vec<String> {
        match with_profile(&file, profile, &[], &[]).validated() {
            Ok(_) => Vec::new(),
            Err(Problems(problems)) => problems.iter().map(ToString::to_string).collect(),
        }
    };
    let found = problems("large");
    let [unknown, section] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(
        unknown.ends_with("(profile odd): job.wrokers: there is no such key; did you mean job.workers?"),
        "{unknown}"
    );
    assert!(
        section.ends_with("(profile odder): node: is a section, not a key"),
        "{section}"
    );
    let none = problems("huge");
    assert_eq!(
        none[2],
        "--config-profile: there is no profile huge; the profiles are large, odd, odder, small"
    );
}
