use super::{below, built};
use crate::storage::ArtifactKey;
use parkhang_core::domain::{JobKey, VolumeId};

/// The keys of a job that is described, divided and kept in the store itself, below `manifests/jobs/{job}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardLayout {
    folder: ArtifactKey,
}

impl ShardLayout {
    pub fn new(job: &JobKey) -> Self {
        Self {
            folder: below(&Self::jobs_folder(), job.as_str()),
        }
    }

    /// A folder for each job.
    pub fn jobs_folder() -> ArtifactKey {
        built(ArtifactKey::new("manifests/jobs"))
    }

    /// What the job is. It is written last: a job that can be seen is complete.
    pub fn job(&self) -> ArtifactKey {
        below(&self.folder, "job.json")
    }

    /// The volumes of a shard, one JSON object per line.
    pub fn shard(&self, shard: u32) -> ArtifactKey {
        below(&self.folder, &format!("shards/{}.jsonl", name(shard)))
    }

    pub fn done_folder(&self) -> ArtifactKey {
        below(&self.folder, "shard_done")
    }

    /// Says that nothing more will be tried in a shard.
    pub fn done(&self, shard: u32) -> ArtifactKey {
        below(&self.done_folder(), &format!("{}.done.json", name(shard)))
    }

    /// The shard that a key of [`done`](Self::done) speaks of.
    pub fn shard_of_done(&self, key: &ArtifactKey) -> Option<u32> {
        number(
            self.relative(key)?
                .strip_prefix("shard_done/")?
                .strip_suffix(".done.json")?,
        )
    }

    pub fn lease_folder(&self) -> ArtifactKey {
        below(&self.folder, "shard_lease")
    }

    /// Who holds a shard. The latest of its terms is the one in force.
    pub fn lease(&self, shard: u32, term: u32) -> ArtifactKey {
        below(&self.lease_folder(), &format!("{}.{term:08}.json", name(shard)))
    }

    /// Shard and term of a key of [`lease`](Self::lease).
    pub fn term_of_lease(&self, key: &ArtifactKey) -> Option<(u32, u32)> {
        let file = self
            .relative(key)?
            .strip_prefix("shard_lease/")?
            .strip_suffix(".json")?;
        let (shard, term) = file.split_once('.')?;
        Some((number(shard)?, term.parse().ok()?))
    }

    pub fn control_folder(&self) -> ArtifactKey {
        below(&self.folder, "control")
    }

    /// There while the job is paused.
    pub fn paused(&self) -> ArtifactKey {
        below(&self.control_folder(), "paused.json")
    }

    /// There once the job is cancelled.
    pub fn cancelled(&self) -> ArtifactKey {
        below(&self.control_folder(), "cancelled.json")
    }

    /// Everything that has happened to the volumes of a shard.
    pub fn records_folder(&self, shard: u32) -> ArtifactKey {
        below(&self.folder, &format!("tasks/{}", name(shard)))
    }

    /// The state of a volume after so many changes.
    pub fn record(&self, shard: u32, volume: &VolumeId, step: u32) -> ArtifactKey {
        below(&self.records_folder(shard), &format!("{volume}/{step:08}.json"))
    }

    /// Volume and number of changes of a key of [`record`](Self::record).
    pub fn step_of_record(&self, shard: u32, key: &ArtifactKey) -> Option<(VolumeId, u32)> {
        let folder = format!("tasks/{}/", name(shard));
        let (volume, file) = self.relative(key)?.strip_prefix(&folder)?.split_once('/')?;
        let step = file.strip_suffix(".json")?.parse().ok()?;
        Some((volume.parse().ok()?, step))
    }

    fn relative<'a>(&self, key: &'a ArtifactKey) -> Option<&'a str> {
        key.as_str().strip_prefix(self.folder.as_str())?.strip_prefix('/')
    }
}

fn name(shard: u32) -> String {
    format!("shard-{shard:05}")
}

fn number(name: &str) -> Option<u32> {
    name.strip_prefix("shard-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: 96, 99.
    #[test]
    fn keys_are_those_of_the_layout_and_can_be_read_back() {
        let layout = ShardLayout::new(&JobKey::new("J123").unwrap());
        let volume = VolumeId::new("W1", "I1-a").unwrap();
        let expected = [
            (layout.job(), "job.json"),
            (layout.shard(0), "shards/shard-00000.jsonl"),
            (layout.done(12), "shard_done/shard-00012.done.json"),
            (layout.lease(12, 3), "shard_lease/shard-00012.00000003.json"),
            (layout.paused(), "control/paused.json"),
            (layout.cancelled(), "control/cancelled.json"),
            (
                layout.record(12, &volume, 7),
                "tasks/shard-00012/W1-I1-a/00000007.json",
            ),
        ];
        for (key, expected) in expected {
            assert_eq!(key.as_str(), format!("manifests/jobs/J123/{expected}"));
        }
        assert_eq!(layout.shard_of_done(&layout.done(12)), Some(12));
        assert_eq!(
            layout.term_of_lease(&layout.lease(123_456, 3)),
            Some((123_456, 3))
        );
        assert_eq!(
            layout.step_of_record(12, &layout.record(12, &volume, 7)),
            Some((volume, 7))
        );
        assert!(layout.job().is_under(&ShardLayout::jobs_folder()));
        let other = ShardLayout::new(&JobKey::new("J1").unwrap());
        assert_eq!(other.term_of_lease(&layout.lease(12, 3)), None);
        assert_eq!(layout.shard_of_done(&layout.job()), None);
    }
}
