//! Division of a fleet into nodes with and without a GPU.

use parkhang_core::domain::Hardware;
use parkhang_simulation::{NodeClass, Profile};

use crate::config::Slots;

/// Properties of the two kinds of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Kinds<'a> {
    pub slots: &'a Slots,
    pub gpu_speed: f64,
    pub cpu_speed: f64,
}

impl Kinds<'_> {
    /// Returns a fleet of `nodes` nodes, with the given share of GPU nodes, or else the share at which the bottleneck stages of both kinds
    /// are equally fast; at least one node of each kind that the profile needs.
    pub fn fleet(&self, profile: &Profile, nodes: usize, gpu_share: Option<f64>) -> Vec<NodeClass> {
        let (gpu, cpu) = (
            self.need(profile, Hardware::Gpu),
            self.need(profile, Hardware::Cpu),
        );
        // A profile without any work would divide by zero.
        let share = gpu_share.unwrap_or(gpu / (gpu + cpu).max(f64::MIN_POSITIVE));
        // Rounding must not leave a hardware that has work without any node.
        let at_least = usize::from(gpu > 0.0);
        // `clamp` panics if its bounds are reversed, so the upper one is never below the lower.
        let at_most = nodes.saturating_sub(usize::from(cpu > 0.0)).max(at_least);
        let gpu_nodes = ((share * nodes as f64).round() as usize).clamp(at_least, at_most);
        let classes = [(Hardware::Gpu, gpu_nodes), (Hardware::Cpu, nodes - gpu_nodes)];
        let class = |(hardware, nodes)| NodeClass {
            hardware,
            nodes,
            slots: self.slots(hardware),
            speed: self.speed(hardware),
        };
        classes
            .map(class)
            .into_iter()
            .filter(|class| class.nodes > 0)
            .collect()
    }

    /// Node seconds that a page takes in the bottleneck stage of this hardware.
    fn need(&self, profile: &Profile, hardware: Hardware) -> f64 {
        let narrowest = profile
            .stages
            .iter()
            .filter(|stage| stage.hardware == hardware)
            .map(|stage| stage.seconds_per_page.mean())
            .fold(0.0, f64::max);
        narrowest / (self.slots(hardware).max(1) as f64 * self.speed(hardware))
    }

    fn slots(&self, hardware: Hardware) -> usize {
        match hardware {
            Hardware::Cpu => self.slots.cpu,
            Hardware::Gpu => self.slots.gpu,
        }
    }

    fn speed(&self, hardware: Hardware) -> f64 {
        match hardware {
            Hardware::Cpu => self.cpu_speed,
            Hardware::Gpu => self.gpu_speed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(speed: f64, nodes: usize, share: Option<f64>) -> Vec<(Hardware, usize)> {
        let json = r#"{ "about": "", "pages_per_volume": [1], "stages": [
            { "stage": "find", "hardware": "gpu", "seconds_per_page": [1.0] },
            { "stage": "read", "hardware": "gpu", "seconds_per_page": [3.0] },
            { "stage": "cut", "hardware": "cpu", "seconds_per_page": [1.0] }
        ] }"#;
        let slots = Slots { cpu: 1, gpu: 1 };
        let kinds = Kinds {
            slots: &slots,
            gpu_speed: speed,
            cpu_speed: 1.0,
        };
        let fleet = kinds.fleet(&Profile::parse(json).unwrap(), nodes, share);
        fleet.iter().map(|class| (class.hardware, class.nodes)).collect()
    }

    #[test]
    fn nodes_are_split_as_the_narrowest_stages_ask() {
        let split = |gpu, cpu| vec![(Hardware::Gpu, gpu), (Hardware::Cpu, cpu)];
        assert_eq!(counts(1.0, 100, None), split(75, 25));
        assert_eq!(counts(3.0, 100, None), split(50, 50));
        assert_eq!(counts(1.0, 100, Some(0.1)), split(10, 90));
        assert_eq!(counts(1.0, 2, Some(1.0)), split(1, 1), "a node of each kind");
    }
}
