//! Scaling of the fleet: the decisions are those of the real autoscaler, and nodes join after the time that they take to boot.

use super::cluster::Node;
use super::{Engine, Event};
use crate::agenda::Millis;
use crate::error::SimulationError;
use crate::settings::{Autoscaling, millis};
use parkhang_core::policy::autoscale::{Fleet, Load, decide, loads};
use parkhang_state::StateStore;

impl Engine {
    /// A fixed fleet is there at once; one that is scaled has no node yet.
    pub(crate) fn begin_fleet(&mut self) {
        let scaled = |hardware| {
            self.settings
                .autoscaling
                .as_ref()
                .is_some_and(|autoscaling| autoscaling.limits.contains_key(&hardware))
        };
        let fixed: Vec<usize> = self
            .settings
            .fleet
            .iter()
            .enumerate()
            .filter(|(_, class)| !scaled(class.hardware))
            .map(|(number, _)| number)
            .collect();
        for class in fixed {
            self.launch(class, usize::MAX, 0);
        }
        if self.settings.autoscaling.is_some() {
            self.agenda.enter(0, Event::Scale);
        }
    }

    pub(crate) async fn scale(&mut self) -> Result<(), SimulationError> {
        let Some(autoscaling) = self.settings.autoscaling.clone() else {
            return Ok(());
        };
        let backlog = self.store.backlog().await?;
        let loads = loads(&backlog, |_| Some(&self.job.config));
        for class in 0..self.settings.fleet.len() {
            let hardware = self.settings.fleet[class].hardware;
            let loads: Vec<Load> = self
                .settings
                .profile
                .stages
                .iter()
                .filter(|stage| stage.hardware == hardware)
                .filter_map(|stage| loads.get(&stage.stage).copied())
                .collect();
            self.scale_class(class, &autoscaling, &loads);
        }
        let next = self.now + millis(autoscaling.interval).max(1);
        self.agenda.enter(next, Event::Scale);
        Ok(())
    }

    fn scale_class(&mut self, number: usize, autoscaling: &Autoscaling, loads: &[Load]) {
        let class = self.settings.fleet[number];
        let Some(limits) = autoscaling.limits.get(&class.hardware) else {
            return;
        };
        let count = |nodes: usize| u32::try_from(nodes).unwrap_or(u32::MAX);
        let launched = self.of_class(number, |node| node.launched.is_some()).len();
        let idle = self.of_class(number, |node| node.launched.is_some() && node.is_idle());
        let changed_at = self.counts.scaled_at.get(&number);
        let fleet = Fleet {
            desired: count(launched),
            limit: Some(count(class.nodes)),
            idle: count(idle.len()),
            slots: count(class.slots),
            changed_at: changed_at.map(|at| self.time(*at)),
        };
        // Decided on what is launched, and not on what has joined: a node that boots is on its way.
        let desired = decide(limits, loads, &fleet, self.time(self.now)).desired as usize;
        if desired == launched {
            return;
        }
        self.counts.scalings += 1;
        self.counts.scaled_at.insert(number, self.now);
        if desired > launched {
            self.launch(number, desired - launched, millis(autoscaling.boot));
        } else {
            // A node that is not up at the moment is given up where there are too few idle ones: it has no work either.
            let absent = self.of_class(number, |node| node.launched.is_some() && node.is_down());
            let retiring = idle.into_iter().chain(absent).take(launched - desired);
            for node in retiring.collect::<Vec<_>>() {
                self.retire(node);
            }
        }
    }

    fn launch(&mut self, class: usize, count: usize, boot: Millis) {
        let spare = self.of_class(class, |node| node.launched.is_none());
        for node in spare.into_iter().take(count) {
            let ready = self.now + boot;
            self.nodes[node].launched = Some(self.now);
            self.nodes[node].ready_at = ready;
            self.agenda.enter(ready, Event::Join(node));
        }
        let launched = self.of_class(class, |node| node.launched.is_some()).len();
        let most = self.counts.most_nodes.entry(class).or_default();
        *most = (*most).max(launched);
    }

    /// Numbers of the nodes of a class.
    fn of_class(&self, class: usize, is_meant: impl Fn(&Node) -> bool) -> Vec<usize> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.class == class && is_meant(node))
            .map(|(number, _)| number)
            .collect()
    }
}
