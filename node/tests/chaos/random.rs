//! Deaths at places that are picked by chance.

use std::env;
use std::time::Duration;

use parkhang_core::failpoint::Failpoint;
use parkhang_test_support::Wait;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::cluster::{Cluster, LOOK, Plan};
use crate::failpoints::{of_leaders, of_nodes};
use crate::library::Library;

/// Number that decides about the places; one that is made up, and printed, where it is not set.
const SEED: &str = "PARKHANG_CHAOS_SEED";
/// How many processes die before the others are left alone, unless this variable says another number.
const DEATHS: &str = "PARKHANG_CHAOS_DEATHS";
const USUAL_DEATHS: usize = 12;
/// Times that a place is passed before a process dies there, at most.
const PASSES: u32 = 8;
/// Longest time until so many have died: a place may be passed late, or by another process.
const LONGEST: Duration = Duration::from_secs(600);

/// Every process of a cluster of two orchestrators and four nodes dies where chance says, and so do those that take its place.
#[tokio::test(flavor = "multi_thread")]
async fn processes_die_wherever_chance_has_it() {
    let seed = number(SEED).unwrap_or_else(rand::random);
    let deaths = number(DEATHS).map_or(USUAL_DEATHS, |deaths| usize::try_from(deaths).unwrap());
    eprintln!("{SEED}={seed}");
    let plan = Plan::full(Library::alike(4, 3)).with(&[
        ("cluster.idle_timeout", "6s"),
        ("cluster.lease", "8s"),
        ("orchestrator.max_interruptions", "1000"),
    ]);
    let mut random = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::prepare(plan).await;
    for place in 0..cluster.orchestrators.len() {
        cluster
            .start_orchestrator(place, &picked(&of_leaders(), &mut random))
            .await;
    }
    for place in 0..cluster.workers.len() {
        cluster
            .start_worker(place, &picked(&of_nodes(), &mut random))
            .await;
    }
    cluster.until_so_many_died(deaths, &mut random).await;
    eprintln!("{deaths} processes or more died, {} jobs", cluster.jobs.len());
    for place in 0..cluster.orchestrators.len() {
        // One that has died by now is replaced as well.
        if let Some(process) = cluster.orchestrators[place].process.take() {
            process.kill();
        }
        cluster.start_orchestrator(place, "").await;
    }
    cluster.all_is_well().await;
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// What FAILPOINTS is set to: death at one of two places, after they were passed so many times.
fn picked(places: &[Failpoint], random: &mut StdRng) -> String {
    let orders: Vec<String> = places
        .choose_multiple(random, 2)
        .map(|place| place.name())
        .collect::<Vec<_>>()
        .into_iter()
        .map(|place| format!("{place}={}*off->return(abort)", random.random_range(0..PASSES)))
        .collect();
    orders.join(";")
}

impl Cluster {
    /// Keeps the cluster at work, and its places taken, until so many processes have died.
    async fn until_so_many_died(&mut self, deaths: usize, random: &mut StdRng) {
        let wait = Wait::until("chance has had its way")
            .at_most(LONGEST)
            .looking_every(LOOK);
        let mut died = 0;
        let look = async || {
            self.keep_busy().await;
            died += self.replace_the_dead(random).await;
            died
        };
        if let Err(error) = wait.try_sees(look, |died| *died >= deaths).await {
            self.fail(&error.to_string()).await;
        }
    }

    /// Starts processes in the place of those that have ended; returns how many.
    async fn replace_the_dead(&mut self, random: &mut StdRng) -> usize {
        let mut replaced = 0;
        for place in 0..self.orchestrators.len() {
            let process = self.orchestrators[place].process.as_mut();
            if process.is_none_or(|process| process.has_ended()) {
                self.start_orchestrator(place, &picked(&of_leaders(), random))
                    .await;
                replaced += 1;
            }
        }
        for place in self.deaths() {
            self.start_worker(place, &picked(&of_nodes(), random)).await;
            replaced += 1;
        }
        replaced
    }
}
