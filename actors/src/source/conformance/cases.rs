use std::collections::HashSet;

use super::*;
use parkhang_core::domain::{Generation, Position, TaskStatus};

/// Runs every case, each on a site of its own.
pub(super) async fn suite(make: impl AsyncFn() -> Arc<dyn Site>) {
    volumes_go_through_their_stages(make().await).await;
    a_process_gets_what_it_has_room_for(make().await).await;
    two_kinds_of_hardware_take_turns(make().await).await;
    a_failure_backs_off_and_ends(make().await).await;
    an_outage_of_the_storage_is_waited_out(make().await).await;
    what_is_given_back_is_free_and_uncharged(make().await).await;
    a_dead_process_is_succeeded(make().await).await;
    an_outage_costs_nobody_a_lease(make().await).await;
    renewal_keeps_a_lease(make().await).await;
    a_poison_volume_is_set_aside(make().await).await;
    a_report_may_be_repeated(make().await).await;
    who_leaves_holds_nothing_back(make().await).await;
    a_paused_job_hands_out_nothing(make().await).await;
    what_is_cancelled_is_given_back(make().await).await;
    many_processes_share_the_work(make().await).await;
}

async fn volumes_go_through_their_stages(site: Arc<dyn Site>) {
    site.create(job_of(7)).await;
    let process = site.process("p");
    let mut seen = Vec::new();
    for round in 0..20 {
        let claims = process.claim(&both(2), at(round)).await.unwrap();
        if claims.is_empty() {
            break;
        }
        for claim in &claims {
            assert_eq!(
                claim.worker.0,
                format!("pool of {}", claim.assignment.fence.stage)
            );
            assert_eq!(claim.assignment.job, key());
            assert!(claim.assignment.lease_until >= at(round + LEASE * 3 / 4));
            assert_eq!(at(round) + claim.lasts, claim.assignment.lease_until);
            assert_eq!(
                complete(&process, claim, success(), at(round)).await,
                ReportReply::Recorded
            );
        }
        seen.extend(names(&claims));
    }
    for task in site.tasks().await {
        assert_eq!((&task.position, task.status), (&Position::Done, TaskStatus::Done));
        let of = |stage: &str| {
            let name = format!("{} {stage}", task.volume.i_id());
            let mut places = seen.iter().enumerate().filter(|(_, seen)| **seen == name);
            let place = places.next().unwrap().0;
            assert!(places.next().is_none(), "{name} ran twice");
            place
        };
        assert!(of("detect") < of("read"));
    }
    assert!(process.claim(&both(2), at(30)).await.unwrap().is_empty());
}

/// Rows: F16.
async fn a_process_gets_what_it_has_room_for(site: Arc<dyn Site>) {
    assert!(site.process("early").claim(&[], at(0)).await.unwrap().is_empty());
    site.create(job_of(7)).await;
    let process = site.process("p");
    assert!(process.claim(&both(0), at(0)).await.unwrap().is_empty());
    assert!(
        process
            .claim(&[room("elsewhere", 9)], at(0))
            .await
            .unwrap()
            .is_empty()
    );
    let first = process.claim(&both(2), at(0)).await.unwrap();
    assert_eq!(first.len(), 2);
    let rest = process.claim(&both(9), at(0)).await.unwrap();
    assert_eq!(rest.len(), 5, "as many as there are, from several shards");
    assert!(process.claim(&both(9), at(0)).await.unwrap().is_empty());
    let fences: HashSet<Fence> = first
        .iter()
        .chain(&rest)
        .map(|claim| claim.assignment.fence.clone())
        .collect();
    assert_eq!(fences.len(), 7);
}

async fn two_kinds_of_hardware_take_turns(site: Arc<dyn Site>) {
    site.create(job_of(4)).await;
    let (gpu, cpu) = (site.process("gpu"), site.process("cpu"));
    let mut idle = 0;
    for round in 0.. {
        assert!(round < 40, "nobody gets on");
        let detected = gpu.claim(&[room("detect", 1)], at(round)).await.unwrap();
        assert!(
            detected
                .iter()
                .all(|claim| claim.assignment.fence.stage.as_str() == "detect")
        );
        for claim in &detected {
            complete(&gpu, claim, success(), at(round)).await;
        }
        let read = cpu.claim(&[room("read", 1)], at(round)).await.unwrap();
        assert!(
            read.iter()
                .all(|claim| claim.assignment.fence.stage.as_str() == "read")
        );
        for claim in &read {
            complete(&cpu, claim, success(), at(round)).await;
        }
        idle = if detected.is_empty() && read.is_empty() {
            idle + 1
        } else {
            0
        };
        if idle == 2 {
            break;
        }
    }
    assert!(
        site.tasks()
            .await
            .iter()
            .all(|task| task.position == Position::Done)
    );
}

async fn a_failure_backs_off_and_ends(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let (process, other) = (site.process("p"), site.process("q"));
    let claim = process.claim(&both(1), at(0)).await.unwrap().remove(0);
    complete(&process, &claim, failure(ErrorCategory::Transient), at(1)).await;
    for process in [&process, &other] {
        assert!(process.claim(&both(1), at(6)).await.unwrap().is_empty());
    }
    let again = other.claim(&both(1), at(12)).await.unwrap().remove(0);
    assert_eq!(again.assignment.fence.attempt.0, 2);
    complete(&other, &again, failure(ErrorCategory::Transient), at(13)).await;
    assert!(process.claim(&both(1), at(5000)).await.unwrap().is_empty());
    let task = site.tasks().await.remove(0);
    assert_eq!(
        (task.status, task.attempts, task.interruptions),
        (TaskStatus::Failed, 2, 0)
    );
    assert_eq!(task.last_error.unwrap().message, "went wrong");
}

async fn an_outage_of_the_storage_is_waited_out(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let process = site.process("p");
    let mut now = 0;
    for outages in 1..=5 {
        let claim = process.claim(&both(1), at(now)).await.unwrap().remove(0);
        assert_eq!(claim.assignment.fence.attempt.0, 1);
        complete(&process, &claim, failure(ErrorCategory::Network), at(now)).await;
        let task = site.tasks().await.remove(0);
        assert_eq!(
            (task.attempts, task.outages, task.status),
            (0, outages, TaskStatus::Pending)
        );
        assert!(
            process.claim(&both(1), at(now + 5)).await.unwrap().is_empty(),
            "too early"
        );
        let message = task.last_error.unwrap().message;
        assert_eq!(
            message,
            format!("storage unavailable, tried {outages} times: went wrong")
        );
        // The longest delay, and a quarter of it.
        now += 400;
    }
    let claim = process.claim(&both(1), at(now)).await.unwrap().remove(0);
    complete(&process, &claim, success(), at(now)).await;
    let task = site.tasks().await.remove(0);
    assert_eq!(
        (task.status, task.outages, task.last_error),
        (TaskStatus::Done, 0, None)
    );
}

async fn what_is_given_back_is_free_and_uncharged(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let (first, second) = (site.process("p"), site.process("q"));
    let claim = first.claim(&both(1), at(0)).await.unwrap().remove(0);
    assert!(second.claim(&both(1), at(1)).await.unwrap().is_empty());
    let fence = claim.assignment.fence.clone();
    assert_eq!(first.release(fence, at(2)).await.unwrap(), ReportReply::Recorded);
    first.leave(at(2)).await.unwrap();
    let next = second.claim(&both(1), at(3)).await.unwrap().remove(0);
    assert_ne!(next.assignment.fence, claim.assignment.fence);
    assert_eq!(
        complete(&first, &claim, success(), at(4)).await,
        ReportReply::Fenced
    );
    let task = site.tasks().await.remove(0);
    assert_eq!(
        (task.status, task.attempts, task.interruptions),
        (TaskStatus::Running, 0, 0)
    );
}

/// Rows: U34.
async fn a_dead_process_is_succeeded(site: Arc<dyn Site>) {
    site.create(job_of(2)).await;
    let (dead, next) = (site.process("dead"), site.process("next"));
    let lost = dead.claim(&both(1), at(0)).await.unwrap().remove(0);
    let others = next.claim(&both(9), at(LEASE - 1)).await.unwrap();
    assert!(!names(&others).contains(&names(std::slice::from_ref(&lost))[0]));
    let mut taken = others;
    taken.extend(next.claim(&both(9), at(LEASE)).await.unwrap());
    taken.extend(next.claim(&both(9), at(LEASE)).await.unwrap());
    let again = taken
        .iter()
        .find(|claim| claim.assignment.volume == lost.assignment.volume)
        .expect("the lost volume is taken over");
    assert_ne!(again.assignment.fence, lost.assignment.fence);
    let task = |tasks: Vec<Task>| {
        tasks
            .into_iter()
            .find(|task| task.volume == lost.assignment.volume)
            .unwrap()
    };
    assert_eq!(task(site.tasks().await).interruptions, 1);

    for verdict in [success(), failure(ErrorCategory::Input), None] {
        assert_eq!(
            complete(&dead, &lost, verdict, at(LEASE + 1)).await,
            ReportReply::Fenced
        );
    }
    let thawed = [lost.assignment.fence.clone()];
    assert_eq!(
        dead.renew(&thawed, at(LEASE + 1)).await.unwrap(),
        [LeaseStatus::Lost]
    );
    let running = task(site.tasks().await);
    assert_eq!(running.status, TaskStatus::Running);
    assert_eq!(running.generation, again.assignment.fence.generation);
    assert_eq!(
        complete(&next, again, success(), at(LEASE + 2)).await,
        ReportReply::Recorded
    );
    let done = task(site.tasks().await);
    assert_eq!(
        (done.status, done.attempts, done.interruptions),
        (TaskStatus::Done, 0, 0)
    );
}

/// The store is away for longer than a lease lasts. Whoever is the first to reach it again leaves the others the time to.
async fn an_outage_costs_nobody_a_lease(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let (holder, other) = (site.process("holder"), site.process("other"));
    let held = holder.claim(&both(1), at(0)).await.unwrap().remove(0);
    let fence = held.assignment.fence.clone();
    for process in [&holder, &other] {
        process.misses(&fence).await;
    }
    let back = 2 * LEASE;
    for second in [0, LEASE / 2 - 2] {
        assert!(other.claim(&both(1), at(back + second)).await.unwrap().is_empty());
    }
    let renewed = holder
        .renew(std::slice::from_ref(&fence), at(back + LEASE / 2 - 1))
        .await;
    assert_eq!(renewed.unwrap(), [LeaseStatus::Held]);
    assert_eq!(site.tasks().await[0].interruptions, 0);

    // From then on its silence counts.
    let over = back + LEASE / 2 + LEASE;
    let mut taken = other.claim(&both(1), at(over)).await.unwrap();
    taken.extend(other.claim(&both(1), at(over)).await.unwrap());
    assert_eq!(names(&taken), ["I000 detect"]);
    assert_eq!(site.tasks().await[0].interruptions, 1);
}

/// Rows: F17, U33.
async fn renewal_keeps_a_lease(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let (holder, other) = (site.process("holder"), site.process("other"));
    let claim = holder.claim(&both(1), at(0)).await.unwrap().remove(0);
    let fence = [claim.assignment.fence.clone()];
    for beat in 1..20 {
        let now = beat * LEASE / 4;
        assert_eq!(holder.renew(&fence, at(now)).await.unwrap(), [LeaseStatus::Held]);
        assert!(
            other
                .claim(&both(1), at(now + LEASE / 2))
                .await
                .unwrap()
                .is_empty()
        );
    }
    assert_eq!(
        complete(&holder, &claim, success(), at(20 * LEASE / 4)).await,
        ReportReply::Recorded
    );
    assert_eq!(site.tasks().await[0].interruptions, 0);
    let unknown = Fence {
        generation: Generation(99),
        ..fence[0].clone()
    };
    assert_eq!(
        holder.renew(&[unknown], at(0)).await.unwrap(),
        [LeaseStatus::Lost]
    );
}

async fn a_poison_volume_is_set_aside(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let mut now = 0;
    for death in 0..MAX_INTERRUPTIONS {
        let process = site.process(&format!("p{death}"));
        let claims = process.claim(&both(1), at(now)).await.unwrap();
        assert_eq!(claims.len(), 1, "after {death} deaths");
        now += LEASE;
    }
    let last = site.process("last");
    for _ in 0..3 {
        assert!(last.claim(&both(1), at(now)).await.unwrap().is_empty());
    }
    let task = site.tasks().await.remove(0);
    assert_eq!((task.status, task.lease), (TaskStatus::Failed, None));
    assert_eq!(task.last_error.unwrap().category, ErrorCategory::Poison);
}

async fn a_report_may_be_repeated(site: Arc<dyn Site>) {
    site.create(job_of(1)).await;
    let process = site.process("p");
    for stage in ["detect", "read"] {
        let claim = process.claim(&both(1), at(0)).await.unwrap().remove(0);
        assert_eq!(claim.assignment.fence.stage.as_str(), stage);
        assert_eq!(
            complete(&process, &claim, success(), at(1)).await,
            ReportReply::Recorded
        );
        let before = site.tasks().await;
        for verdict in [success(), failure(ErrorCategory::Input), None] {
            assert_eq!(
                complete(&process, &claim, verdict, at(2)).await,
                ReportReply::Fenced
            );
        }
        assert_eq!(site.tasks().await, before);
    }
}

/// Rows: U21.
async fn who_leaves_holds_nothing_back(site: Arc<dyn Site>) {
    site.create(job_of(3)).await;
    let (first, second) = (site.process("first"), site.process("second"));
    let claim = first.claim(&both(1), at(0)).await.unwrap().remove(0);
    complete(&first, &claim, success(), at(1)).await;
    first.leave(at(2)).await.unwrap();
    let taken = second.claim(&both(9), at(3)).await.unwrap();
    assert_eq!(taken.len(), 3, "{:?}", names(&taken));
}

/// Orders are obeyed within this many seconds.
const OBEYED: i64 = LEASE / 4;

async fn a_paused_job_hands_out_nothing(site: Arc<dyn Site>) {
    site.create(job_of(4)).await;
    let (process, other) = (site.process("p"), site.process("q"));
    let claim = process.claim(&both(1), at(0)).await.unwrap().remove(0);
    site.act(JobAction::Pause).await;
    for process in [&process, &other] {
        assert!(process.claim(&both(9), at(OBEYED)).await.unwrap().is_empty());
    }
    let fence = [claim.assignment.fence.clone()];
    assert_eq!(
        process.renew(&fence, at(OBEYED)).await.unwrap(),
        [LeaseStatus::Held]
    );
    assert_eq!(
        complete(&process, &claim, success(), at(OBEYED + 1)).await,
        ReportReply::Recorded,
        "what runs goes on to its end"
    );
    assert!(process.claim(&both(9), at(OBEYED + 1)).await.unwrap().is_empty());
    site.act(JobAction::Resume).await;
    let mut rest = process.claim(&both(9), at(2 * OBEYED + 1)).await.unwrap();
    rest.extend(other.claim(&both(9), at(2 * OBEYED + 1)).await.unwrap());
    assert_eq!(rest.len(), 4, "{:?}", names(&rest));
}

async fn what_is_cancelled_is_given_back(site: Arc<dyn Site>) {
    site.create(job_of(4)).await;
    let (process, other) = (site.process("p"), site.process("q"));
    let claim = process.claim(&both(1), at(0)).await.unwrap().remove(0);
    let fence = claim.assignment.fence.clone();
    assert_eq!(
        process.renew(std::slice::from_ref(&fence), at(1)).await.unwrap(),
        [LeaseStatus::Held]
    );
    site.act(JobAction::Cancel).await;
    assert_eq!(
        process
            .renew(std::slice::from_ref(&fence), at(OBEYED))
            .await
            .unwrap(),
        [LeaseStatus::Cancelled]
    );
    process.release(fence, at(OBEYED + 1)).await.unwrap();
    for process in [&process, &other] {
        assert!(process.claim(&both(9), at(2 * OBEYED)).await.unwrap().is_empty());
        assert!(process.claim(&both(9), at(10 * LEASE)).await.unwrap().is_empty());
    }
    for task in site.tasks().await {
        assert_eq!((task.lease, task.attempts, task.interruptions), (None, 0, 0));
    }
}

/// Rows: 106.
async fn many_processes_share_the_work(site: Arc<dyn Site>) {
    site.create(job_of(24)).await;
    let workers = (0..6).map(|n| {
        let (site, process) = (site.clone(), site.process(&format!("p{n}")));
        tokio::spawn(async move {
            let mut mine = Vec::new();
            // Time goes on only where there is nothing to do, and never so far that a lease runs out.
            for round in 0..10_000 {
                let now = at(round * LEASE / 20_000);
                let claims = process.claim(&both(2), now).await.unwrap();
                for claim in &claims {
                    assert_eq!(
                        complete(&process, claim, success(), now).await,
                        ReportReply::Recorded
                    );
                }
                mine.extend(claims.iter().map(|claim| claim.assignment.fence.clone()));
                if claims.is_empty()
                    && site
                        .tasks()
                        .await
                        .iter()
                        .all(|task| task.position == Position::Done)
                {
                    return mine;
                }
                // What others have in hand goes on meanwhile: no store in memory makes anybody wait.
                tokio::task::yield_now().await;
            }
            panic!("the work does not end");
        })
    });
    let mut fences = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        fences.extend(worker.await.unwrap());
    }
    let distinct: HashSet<&Fence> = fences.iter().collect();
    assert_eq!((fences.len(), distinct.len()), (48, 48));
}
