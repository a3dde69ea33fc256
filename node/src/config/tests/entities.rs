use parkhang_service::FailureCategory;

use super::*;

const LEADS: &str = "[node]\nroles = [\"entity\"]\n[service.llm]\nwebhook = true\n[entity.leads]\n\
    stages = [\"scrape\", \"intel\"]\n[entity.leads.stage.scrape]\nservice = \"scraper\"\nmax_retries = 5\n\
    [entity.leads.stage.intel]\nservice = \"llm\"\n";

/// Rows: 222, 223.
#[test]
fn a_pipeline_of_services_is_configuration() {
    let fixture = Fixture::new();
    let file = fixture.file(LEADS);
    let loaded = load(Some(&file), &[], &["entity.leads.stage.intel.stuck_timeout=5m"]).validated();
    let config = loaded.unwrap().config;
    let pipeline = config.entity["leads"].pipeline("leads").unwrap();
    let stages = pipeline.stages();
    assert_eq!(pipeline.table_name(), "leads");
    assert_eq!(
        stages[0].next.as_ref().map(ToString::to_string).as_deref(),
        Some("intel")
    );
    assert_eq!(
        (stages[0].limits.max_retries, stages[1].limits.max_retries),
        (5, 3)
    );
    assert_eq!(
        stages
            .iter()
            .map(|stage| stage.limits.stuck_timeout.as_secs())
            .collect::<Vec<_>>(),
        [600, 300]
    );
    let stage = &config.entity["leads"].stage["intel"];
    assert_eq!(stage.poll_interval.as_millis(), 2000);
    assert_eq!(config.service["scraper"].url, "http://localhost:3000");
    assert!(config.service["llm"].webhook && config.service["llm"].url == "http://localhost:8000");
}

/// Rows: 234, 235.
#[test]
fn a_stage_may_try_again_what_others_do_not() {
    let fixture = Fixture::new();
    let with = |keys: &str| fixture.file(&format!("{LEADS}{keys}\n"));
    let file = with("retry_on = [\"refused\"]\nfail_on = [\"server\"]");
    let loaded = load(Some(&file), &[], &[]).validated().unwrap();
    let retry = loaded.config.entity["leads"].stage["intel"].retry();
    assert_eq!(
        retry.0,
        [(FailureCategory::Refused, true), (FailureCategory::Server, false)].into()
    );
    let unknown = problems(Some(&with("retry_on = [\"weather\"]")), &[], &[]);
    assert!(unknown[0].contains("weather"), "{unknown:?}");
    let both = problems(Some(&with("retry_on = [\"dns\"]\nfail_on = [\"dns\"]")), &[], &[]);
    assert!(both[0].contains("dns is in retry_on too"), "{both:?}");
}

/// Rows: 238.
#[test]
fn the_variables_of_earlier_programs_are_taken() {
    let fixture = Fixture::new();
    let file = fixture.file(LEADS);
    let variables = [
        ("DATABASE_URL", "postgres://u:hunter2@db/crm"),
        ("SCRAPER_URL", "https://scraper.example"),
        ("SCRAPER_AUTH_TOKEN", "hunter2"),
        ("LLM_URL", "https://llm.example/v2"),
        ("LLM_AUTH_TOKEN", "hunter2"),
        ("QUEUE_BATCH_SIZE", "7"),
        ("QUEUE_POLL_INTERVAL", "250"),
        ("COMPLETION_POLL_INTERVAL", "1000"),
        ("WEBHOOK_SECRET", "hunter2"),
        ("LEADS_DATABASE_URL", "postgres://u:hunter2@other/crm"),
    ];
    let loaded = load(
        Some(&file),
        &variables,
        &["entity.leads.stage.intel.poll_interval=3s"],
    );
    let loaded = loaded.validated().unwrap();
    let (config, secrets) = (&loaded.config, &loaded.secrets);
    assert_eq!(config.service["scraper"].url, "https://scraper.example");
    assert_eq!(config.service["llm"].url, "https://llm.example/v2");
    let leads = &config.entity["leads"];
    assert_eq!((leads.batch, leads.poll_interval.as_millis()), (7, 250));
    let polls = |stage: &str| leads.stage[stage].poll_interval.as_millis();
    assert_eq!((polls("scrape"), polls("intel")), (1000, 3000));
    assert!(secrets.webhook.is_some() && secrets.tokens.len() == 2);
    assert_eq!(secrets.entity_databases.keys().collect::<Vec<_>>(), ["leads"]);
    let shown = [
        show::toml(&loaded, true),
        show::json(&loaded, true).to_string(),
        format!("{loaded:?}"),
    ];
    assert!(
        shown[0].contains("# token: a secret from LLM_AUTH_TOKEN"),
        "{}",
        shown[0]
    );
    assert!(!shown.join(" ").contains("hunter2"), "{shown:?}");
    let wrong = problems(
        Some(&file),
        &[("LEADS_DATABASE_URL", "mysql://u:hunter2@db/x")],
        &[],
    );
    let expected =
        "LEADS_DATABASE_URL: entity.leads.database_url: must begin with postgres:// or postgresql://";
    assert_eq!(wrong, [expected]);
    let wrong = problems(Some(&file), &[("QUEUE_BATCH_SIZE", "many")], &[]);
    assert_eq!(wrong, ["QUEUE_BATCH_SIZE: \"many\" is not a whole number"]);
}

#[test]
fn what_no_pipeline_can_be_made_of_is_refused_with_its_place() {
    let fixture = Fixture::new();
    let file = fixture.file(LEADS);
    let place = file.display().to_string();
    for (flag, problem) in [
        ("entity.leads.stages=scrape,scrape", "--set: entity.leads.stages: has the stage scrape twice".to_owned()),
        ("entity.leads.stage.intel.service=lm", "--set: entity.leads.stage.intel.service: must name a service; there are: llm, scraper".to_owned()),
        ("entity.leads.stage.intel.body={{ row.a", "--set: entity.leads.stage.intel.body: the template of the body".to_owned()),
        ("service.llm.url=llm.example", "--set: service.llm.url: \"llm.example\" is no URL of a service".to_owned()),
        ("service.llm.token=hunter2", "--set: service.llm.token: secrets are not allowed here: set PARKHANG_SERVICE__LLM__TOKEN or LLM_AUTH_TOKEN or service.llm.token_file".to_owned()),
        ("entity.leads.database_url=postgres://x", "--set: entity.leads.database_url: secrets are not allowed here: set PARKHANG_ENTITY__LEADS__DATABASE_URL or LEADS_DATABASE_URL or entity.leads.database_url_file".to_owned()),
        ("service.llm.ulr=x", "--set: service.llm.ulr: there is no such key; did you mean service.llm.url?".to_owned()),
        ("entity.leads.batch=0", "--set: entity.leads.batch: must be 1 or more".to_owned()),
        ("entity.leads=x", "--set: entity.leads: is a section, not a key".to_owned()),
        ("node.entities=lead", "--set: node.entities: there is no section [entity.lead]".to_owned()),
        ("node.roles=entity,cpu", "--set: node.roles: a node with the role entity has no other".to_owned()),
        ("service.llm.timeout=3", "--set: service.llm.timeout:".to_owned()),
        ("webhook.on_api=true", "--set: webhook.on_api: needs a secret".to_owned()),
        ("webhook.listen=0.0.0.0:80", "--set: webhook.listen: 0.0.0.0:80 can be reached".to_owned()),
    ] {
        let found = problems(Some(&file), &[], &[flag]);
        assert!(found.iter().any(|found| found.starts_with(&problem)), "{flag}: {found:?}");
    }
    let found = problems(Some(&file), &[], &["webhook.on_api=true", "api.listen="]);
    assert!(
        found
            .iter()
            .any(|found| found.starts_with("--set: webhook.on_api: needs api.listen")),
        "{found:?}"
    );
    let nameless = fixture.file("[entity.leads]\nstages = [\"a\"]\n");
    let found = problems(Some(&nameless), &[], &[]);
    let expected = format!(
        "{place}:2: entity.leads.stage.a.service: must name a service; there is none: make a section [service.NAME]"
    );
    assert_eq!(found, [expected]);
}
