use super::*;

#[test]
fn overrides_parse_by_type() {
    let config = JobConfig::default()
        .with_overrides([
            "k_factor=2.5",
            "merge_lines=false",
            "encoding=wylie",
            "limit=3",
            "limit=4",
        ])
        .unwrap();
    assert_eq!(config.k_factor, 2.5);
    assert!(!config.merge_lines);
    assert_eq!(config.encoding, TextEncoding::Wylie);
    assert_eq!(config.limit, 4);
}

#[test]
fn a_generation_brings_its_usual_values_and_named_ones_stay() {
    let config = |pairs: &[&'static str]| {
        JobConfig::default()
            .with_overrides(pairs.iter().copied())
            .unwrap()
    };
    assert_eq!(
        config(&["generation=gen1"]),
        JobConfig::defaults_for(Algorithms::Gen1)
    );
    for pairs in [
        ["k_factor=2.1", "generation=gen1"],
        ["generation=gen1", "k_factor=2.1"],
    ] {
        let config = config(&pairs);
        assert_eq!((config.k_factor, config.bbox_tolerance), (2.1, 4.0), "{pairs:?}");
    }
    let gen1 = config(&["generation=gen1", "limit=3"]);
    let back = gen1.clone().with_overrides(["generation=gen2"]).unwrap();
    assert_eq!(
        back,
        JobConfig {
            limit: 3,
            ..JobConfig::default()
        }
    );
    // The same generation again changes nothing that somebody set.
    let tuned = gen1.with_overrides(["use_tps=true"]).unwrap();
    assert_eq!(tuned.clone().with_overrides(["generation=gen1"]).unwrap(), tuned);
}

#[test]
fn a_job_that_keeps_pictures_is_understood_by_builds_that_know_no_other() {
    let kept = |config: &JobConfig| serde_json::to_value(config).unwrap().get("artifacts").cloned();
    let usual = JobConfig::default();
    assert_eq!(kept(&usual), None);
    assert_eq!(usual.keys()["artifacts"], "pictures");
    let tables = usual.clone().with_overrides(["artifacts=tables"]).unwrap();
    assert_eq!(kept(&tables), Some("tables".into()));
    assert!(!tables.reads_like(&usual));
    let back = serde_json::from_value(serde_json::to_value(&tables).unwrap()).unwrap();
    assert_eq!(tables, back);
    assert_eq!(tables.with_overrides(["artifacts=pictures"]).unwrap(), usual);

    let gen1 = usual.with_overrides(["artifacts=tables", "generation=gen1"]);
    let error = gen1.unwrap_err().to_string();
    assert!(error.contains("artifacts must be pictures"), "{error}");
}

#[test]
fn the_keys_of_a_generation_are_all_that_differs() {
    let values = |generation| serde_json::to_value(JobConfig::defaults_for(generation)).unwrap();
    let (one, two) = (values(Algorithms::Gen1), values(Algorithms::Gen2));
    let differing: Vec<&str> = one
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, value)| two[key.as_str()] != **value && *key != JobConfig::GENERATION)
        .map(|(key, _)| key.as_str())
        .collect();
    let mut keys = JobConfig::BY_GENERATION;
    keys.sort_unstable();
    assert_eq!(differing, keys);
}

/// Rows: 168, 169, 170, 171, 172, 173, 212.
#[test]
fn the_options_of_stages_are_keys() {
    let given = [
        "workers=3",
        "max_queue=6",
        "error_budget=2",
        "diagnostics_interval_s=5",
        "timeout_s=7.5",
        "retries=4",
        "retry_backoff_s=0.5",
        "limit=9",
    ];
    let expected = JobConfig {
        workers: 3,
        max_queue: 6,
        error_budget: 2,
        diagnostics_interval_s: 5.0,
        timeout_s: 7.5,
        retries: 4,
        retry_backoff_s: 0.5,
        limit: 9,
        ..JobConfig::default()
    };
    assert_eq!(JobConfig::default().with_overrides(given), Ok(expected));
}

#[test]
fn bad_overrides_name_the_key() {
    let fail = |pair| {
        JobConfig::default()
            .with_overrides([pair])
            .unwrap_err()
            .to_string()
    };
    for (pair, reported) in [
        ("k_factr=1", "there is no key k_factr; did you mean k_factor?"),
        ("colour=1", "there is no key colour"),
        ("k_factor", "\"k_factor\" is not key=value"),
        (
            "max_item_error_rate=7",
            "max_item_error_rate must be 0 to 1, not 7",
        ),
        (
            "max_running=many",
            "max_running must be a whole number, 0 or more, not many",
        ),
        (
            "max_running=-1",
            "max_running must be a whole number, 0 or more, not -1",
        ),
        (
            "max_running=1.5",
            "max_running must be a whole number, 0 or more, not 1.5",
        ),
        (
            "chunk_overlap=200",
            "chunk_overlap must be half of chunk_max_tokens at most, not 200",
        ),
        ("chunk_max_tokens=8", "chunk_max_tokens must be 16 to 8192, not 8"),
        ("priority=high", "priority must be a whole number, not high"),
        ("timeout_s=soon", "timeout_s must be a number, not soon"),
        (
            "timeout_s=-1",
            "timeout_s must be a number of seconds, 0 or more, not -1",
        ),
        ("force=yes", "force must be true or false, not yes"),
        ("encoding=morse", "encoding must be unicode or wylie, not morse"),
        ("encoding=1", "encoding must be unicode or wylie, not 1"),
        ("order=best", "order must be one of fifo, sjf, lpt, not best"),
        ("ageing=-1", "ageing must be 0 to 1000000000, not -1"),
        ("generation=gen3", "generation must be gen1 or gen2, not gen3"),
    ] {
        assert_eq!(fail(pair), reported);
    }
}

#[test]
fn configurations_read_alike_where_they_differ_in_limits_alone() {
    let of = |pair| JobConfig::default().with_overrides([pair]).unwrap();
    for pair in [
        "priority=7",
        "max_running=2",
        "retries=0",
        "force=true",
        "order=sjf",
        "ageing=2.5",
        "fingerprint_files=true",
    ] {
        assert!(of(pair).reads_like(&JobConfig::default()), "{pair}");
    }
    for pair in ["k_factor=2", "limit=3", "encoding=wylie", "layout=bdrc_v1"] {
        assert!(!of(pair).reads_like(&JobConfig::default()), "{pair}");
    }
}

#[test]
fn an_empty_object_is_the_default() {
    assert_eq!(
        serde_json::from_str::<JobConfig>("{}").unwrap(),
        JobConfig::default()
    );
}

#[test]
fn the_documented_table_is_the_default() {
    let page = include_str!("../../../../../docs/config.md");
    let mut documented = Map::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        // Keys with a section are the cluster's.
        if cells[1].contains('.') {
            continue;
        }
        let value = serde_json::from_str(cells[3]).unwrap();
        documented.insert(cells[1].to_owned(), value);
    }
    assert_eq!(documented.len(), JobConfig::default().keys().len());
    let config: JobConfig = serde_json::from_value(Value::Object(documented)).unwrap();
    assert_eq!(config, JobConfig::default());
}

#[test]
fn numbers_are_shown_as_they_were_written() {
    let config = JobConfig::default()
        .with_overrides(["k_factor=1.7", "max_item_error_rate=0.1"])
        .unwrap();
    let keys = config.keys();
    assert_eq!(keys["k_factor"].to_string(), "1.7");
    assert_eq!(keys["max_item_error_rate"].to_string(), "0.1");
    assert_eq!(
        JobConfig::default()
            .with_overrides(["k_factor=2"])
            .unwrap()
            .keys()["k_factor"]
            .to_string(),
        "2.0"
    );
}

#[test]
fn fuzz_configurations() {
    let corpus = [
        "k_factor=1.5\nmerge_lines=false\ngeneration=gen1",
        "inputs=ocr-8,archive:gv,ocr-7\nhow=vote\nmodels=ocr=m",
        "inputs=[\"a\",\"b\"]\ntrust=[{\"input\":\"a\",\"weight\":2.5,\"curve\":[{\"confidence\":0.5,\"probability\":0.7}],\"unsaid\":0.5,\"omission\":0.5}]",
        "timeout_s=90\nretries=2\nbudget=10.50\npriority=-3\nlayout=bdrc_v2",
    ];
    parkhang_fuzz::Fuzz::of_texts("configurations", corpus).feeds_texts(|text| {
        if let Ok(config) = JobConfig::default().with_overrides(text.lines()) {
            let written = serde_json::to_string(&config).unwrap();
            assert_eq!(
                serde_json::from_str::<JobConfig>(&written).unwrap(),
                config,
                "{written}"
            );
        }
    });
}
