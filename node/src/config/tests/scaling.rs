//! Tests of the sections about starting and stopping workers.

use super::*;

#[test]
fn a_launcher_has_what_it_needs_and_nothing_besides() {
    for (flags, expected) in [
        (
            &["launcher.kind=asg"][..],
            "launcher.gpu.group: this or launcher.cpu.group is required",
        ),
        (
            &["launcher.kind=local", "launcher.gpu.group=readers"],
            "launcher.gpu.group: has no effect",
        ),
        (
            &[
                "launcher.kind=asg",
                "launcher.cpu.group=cutters",
                "launcher.ecs_cluster=library",
            ],
            "launcher.ecs_cluster: has no effect",
        ),
        (
            &["launcher.endpoint=127.0.0.1:5000"],
            "launcher.endpoint: must begin with http",
        ),
        (
            &["launcher.local_limit=0"],
            "launcher.local_limit: must be 1 or more",
        ),
        (&["launcher.ecs_limit=0"], "launcher.ecs_limit: must be 1 or more"),
        (
            &["launcher.interval=10ms"],
            "launcher.interval: must be 100ms or more",
        ),
    ] {
        let problem = the_problem(flags);
        assert!(problem.contains(expected), "{problem}");
    }
    let whole = [
        "launcher.kind=ecs",
        "launcher.ecs_cluster=library",
        "launcher.gpu.group=readers",
    ];
    assert!(problems(None, &[], &whole).is_empty());
}

/// Rows: 137.
#[test]
fn the_cap_of_a_fleet_is_128_unless_somebody_says_otherwise() {
    let caps = |flags: &[&str]| {
        let autoscaler = load(None, &[], flags).validated().unwrap().config.autoscaler;
        [autoscaler.gpu.cap, autoscaler.cpu.cap]
    };
    assert_eq!(caps(&[]), [128, 128]);
    assert_eq!(caps(&["autoscaler.gpu.cap=256"]), [256, 128]);
}

#[test]
fn an_autoscaler_has_a_launcher_and_bounds() {
    for (flags, expected) in [
        (
            &["autoscaler.enabled=true"][..],
            "autoscaler.enabled: requires a launcher",
        ),
        (
            &["node.idle_exit=5m", "launcher.kind=local"],
            "node.idle_exit: has no use with a launcher",
        ),
        (&["node.tags=a b"], "node.tags: must be at most 16 words"),
        (
            &["autoscaler.tasks_per_slot=0"],
            "autoscaler.tasks_per_slot: must be 1 or more",
        ),
        (
            &["autoscaler.max_age=1ms"],
            "autoscaler.max_age: must be a second",
        ),
        (
            &["autoscaler.gpu.floor=200"],
            "autoscaler.gpu.cap: must not be less than autoscaler.gpu.floor",
        ),
        (
            &["autoscaler.cpu.floor=3", "autoscaler.cpu.cap=2"],
            "autoscaler.cpu.cap: must not be less than autoscaler.cpu.floor",
        ),
        (
            &[
                "autoscaler.enabled=true",
                "launcher.kind=local",
                "source.kind=shards",
                "source.jobs=press",
            ],
            "autoscaler.enabled: cannot count the work of shards",
        ),
        (
            &["node.roles=autoscaler", "source.kind=sqs"],
            "node.roles: the role autoscaler goes by queues",
        ),
        (
            &[
                "node.roles=autoscaler,gpu",
                "source.kind=sqs",
                "autoscaler.enabled=true",
                "launcher.kind=local",
            ],
            "node.roles: a node with the role autoscaler has no other",
        ),
    ] {
        let problem = the_problem(flags);
        assert!(problem.contains(expected), "{problem}");
    }
    let whole = ["autoscaler.enabled=true", "launcher.kind=local"];
    assert!(problems(None, &[], &whole).is_empty());
    let alone = [
        "node.roles=autoscaler",
        "source.kind=sqs",
        "autoscaler.enabled=true",
        "launcher.kind=local",
        // It knows no database.
        "state.embedded=false",
    ];
    assert_eq!(problems(None, &[], &alone), [""; 0]);
}

#[test]
fn what_flags_said_can_be_said_again() {
    let fixture = Fixture::new();
    let path = fixture.file("[node]\nname = 'desk'\n");
    let flags = ["node.slots.gpu=3", "cluster.lease=90s", "node.roles=cpu,gpu"];
    let loaded = load(Some(&path), &[("PARKHANG_JOB__LIMIT", "4")], &flags);
    assert_eq!(loaded.file(), Some(path.as_path()));
    let again = loaded.flags();
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    assert_eq!(again.len(), flags.len(), "{again:?}");
    let again = load(Some(&path), &[("PARKHANG_JOB__LIMIT", "4")], &again);
    assert_eq!(again.config, loaded.config);
}
