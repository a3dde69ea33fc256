//! Tasks that wait for a lease.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parkhang_core::domain::StageName;

use super::tables::Tables;
use crate::Ready;
use crate::backlog::{may_back_off, waiting_for};
use parkhang_core::policy::transition::is_terminal;

/// Finds tasks that are ready, no more of each stage than it has room for.
pub(super) fn ready(tables: &Tables, room: &BTreeMap<StageName, usize>, now: DateTime<Utc>) -> Ready {
    let mut ready = Ready::default();
    for job in tables.running_jobs() {
        let places = room.iter().flat_map(|(stage, room)| {
            waiting_for(&job.pipeline, stage)
                .into_iter()
                .zip(std::iter::repeat(room))
        });
        for (place, room) in places {
            let mut found = 0;
            for id in tables.index.at(job.id, &place) {
                let Some(task) = tables.tasks.get(&id) else {
                    continue;
                };
                match task.not_before {
                    _ if is_terminal(task, job.config.retry_scope) => {}
                    Some(due) if due > now => {
                        ready.next_due = Some(ready.next_due.map_or(due, |first| first.min(due)));
                    }
                    _ if found < *room => {
                        ready.tasks.push((task.clone(), Arc::clone(job)));
                        found += 1;
                    }
                    // With the room used up, the rest is of interest only where a task could tell the next time due.
                    _ if !may_back_off(&place.0, place.1) => break,
                    _ => {}
                }
            }
        }
    }
    ready.tasks.sort_by_key(|(task, _)| task.id);
    ready
}
