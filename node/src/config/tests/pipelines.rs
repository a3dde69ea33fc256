use super::*;

const LINES: &str = "pipeline.lines.stages=line_detection,line_extraction";

fn stages_of(loaded: &Loaded, name: &str) -> Vec<String> {
    let pipelines = loaded.config.pipelines(&loaded.config.stage_table()).unwrap();
    let stages = pipelines.get(name).unwrap().stages().iter();
    stages.map(ToString::to_string).collect()
}

#[test]
fn a_pipeline_is_named_in_any_layer() {
    let fixture = Fixture::new();
    let file = fixture.file("[pipeline.lines]\nstages = [\"line_detection\"]\n");
    let from_file = load(Some(&file), &[], &[]).validated().unwrap();
    assert_eq!(stages_of(&from_file, "lines"), ["line_detection"]);
    let variable = (
        "PARKHANG_PIPELINE__LINES__STAGES",
        "line_detection, line_extraction",
    );
    let from_variable = load(Some(&file), &[variable], &[]).validated().unwrap();
    assert_eq!(
        stages_of(&from_variable, "lines"),
        ["line_detection", "line_extraction"]
    );
    let flagged = load(None, &[], &[LINES]).validated().unwrap();
    assert_eq!(stages_of(&flagged, "lines"), stages_of(&from_variable, "lines"));
    assert_eq!(stages_of(&flagged, "ocr").len(), 4, "the built-in one stays");
    let handed_down: Vec<String> = flagged.flags();
    let handed_down: Vec<&str> = handed_down.iter().map(String::as_str).collect();
    let child = load(None, &[], &handed_down).validated().unwrap();
    assert_eq!(child.config, flagged.config);
    let shown = show::toml(&flagged, false);
    assert!(shown.contains("[pipeline.lines]\nstages = ["), "{shown}");
}

#[test]
fn a_pipeline_that_cannot_run_is_refused_with_its_place() {
    let fixture = Fixture::new();
    let file = fixture.file("[pipeline.text]\nstages = [\"line_detection\", \"ocr\"]\n");
    let place = format!("{}:2: pipeline.text.stages: ", file.display());
    assert_eq!(
        problems(Some(&file), &[], &[]),
        [format!(
            "{place}stage ocr reads line_images, which no stage before it writes (line_extraction does)"
        )]
    );
    for (flag, problem) in [
        (
            "pipeline.x.stages=line_detecton",
            "--set: pipeline.x.stages: there is no stage line_detecton (did you mean line_detection?); the stages are ",
        ),
        (
            "pipeline.ocr.stages=line_detection",
            "--set: pipeline.ocr.stages: pipeline ocr is built in",
        ),
        (
            "pipeline.x.stages=",
            "--set: pipeline.x.stages: a pipeline needs at least one stage",
        ),
        (
            "pipeline.X.stages=ocr",
            "--set: pipeline.X.stages: \"X\" cannot be the name of a pipeline",
        ),
        (
            "pipeline.x.stage=ocr",
            "--set: pipeline.x.stage: there is no such key; did you mean pipeline.x.stages?",
        ),
        ("pipeline.x=ocr", "--set: pipeline.x: is a section, not a key"),
        ("pipeline=ocr", "--set: pipeline: is a section, not a key"),
    ] {
        let found = the_problem(&[flag]);
        assert!(found.starts_with(problem), "{flag}: {found}");
    }
    let number = fixture.file("[pipeline.x]\nstages = 3\n");
    let found = problems(Some(&number), &[], &[]);
    assert!(
        found[0].ends_with("pipeline.x.stages: must be a list of names of stages, not 3"),
        "{found:?}"
    );
}

const CLEANED: &str = "[service.llm]\nmax_in_flight = 7\nrate = 2\n[stage.proofread]\nservice = \"llm\"\nmax_retries = 5\n\
    [pipeline.cleaned]\nstages = [\"line_detection\", \"proofread\", \"line_extraction\"]\n";

/// Rows: 84, 222, 223.
#[test]
fn a_service_does_a_stage_of_a_pipeline() {
    let fixture = Fixture::new();
    let file = fixture.file(CLEANED);
    let loaded = load(Some(&file), &[("LLM_URL", "https://llm.example")], &[])
        .validated()
        .unwrap();
    assert_eq!(
        stages_of(&loaded, "cleaned"),
        ["line_detection", "proofread", "line_extraction"]
    );
    let (stage, service) = (&loaded.config.stage["proofread"], &loaded.config.service["llm"]);
    assert_eq!(
        (stage.limits().max_retries, stage.stuck_timeout.as_secs()),
        (5, 600)
    );
    assert_eq!((service.max_in_flight, service.rate().unwrap().get()), (7, 2));
    assert_eq!(service.url, "https://llm.example");
    for (flag, problem) in [
        (
            "stage.proofread.service=lm",
            "--set: stage.proofread.service: must name a service; there are: llm",
        ),
        (
            "stage.ocr.service=llm",
            "--set: stage.ocr.service: ocr is a stage of this program",
        ),
        (
            "stage.proofread.next=x",
            "--set: stage.proofread.next: is for stages of entities",
        ),
        (
            "stage.proofread.retries=1",
            "--set: stage.proofread.retries: there is no such key; did you mean stage.proofread.max_retries?",
        ),
        ("stage.Clean.service=llm", "--set: stage.Clean.service: \"Clean\""),
        (
            "stage.proofread.body={{ a",
            "--set: stage.proofread.body: the template of the body",
        ),
        (
            "service.llm.max_in_flight=0",
            "--set: service.llm.max_in_flight: must be 1 or more",
        ),
        (
            "pipeline.cleaned.stages=profread",
            "--set: pipeline.cleaned.stages: there is no stage profread (did you mean proofread?)",
        ),
    ] {
        let found = problems(Some(&file), &[], &[flag]);
        assert!(
            found.iter().any(|found| found.starts_with(problem)),
            "{flag}: {found:?}"
        );
    }
    let queued = problems(Some(&file), &[], &["source.kind=sqs"]);
    assert!(
        queued
            .iter()
            .any(|found| found.contains("stage.proofread.service: services get their work")),
        "{queued:?}"
    );
}
