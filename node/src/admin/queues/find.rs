//! Queue that a word of the command line means.

use parkhang_core::domain::did_you_mean;

use crate::admin::Refusal;
use crate::queues::NamedQueue;

/// Finds a queue by the stage or the standing job that it serves, or by its own name. A word that means several is refused: a purge of the
/// wrong queue cannot be taken back.
pub(super) fn find<'a>(queues: &'a [NamedQueue], named: &str) -> Result<&'a NamedQueue, Refusal> {
    let fits = |queue: &&NamedQueue| {
        queue.purpose.name() == named || queue.name() == named || queue.address == named
    };
    let found: Vec<&NamedQueue> = queues.iter().filter(fits).collect();
    let in_words = |queues: &[&NamedQueue]| {
        let words = queues
            .iter()
            .map(|queue| format!("{} of {}", queue.name(), queue.purpose));
        words.collect::<Vec<_>>().join(", ")
    };
    match found[..] {
        [queue] => Ok(queue),
        [] => {
            let names = queues
                .iter()
                .flat_map(|queue| [queue.purpose.name(), queue.name()]);
            let names: Vec<String> = names.map(str::to_owned).collect();
            let all: Vec<&NamedQueue> = queues.iter().collect();
            Err(Refusal::NotFound(format!(
                "there is no queue {named}{}; the queues are {}",
                did_you_mean(named, &names),
                in_words(&all)
            )))
        }
        [_, ..] => Err(Refusal::Conflict(format!(
            "{named} means several queues: {}; give the name of a queue",
            in_words(&found)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use parkhang_core::domain::QueuePurpose;

    use super::*;

    fn queue(kind: &str, serves: &str, address: &str) -> NamedQueue {
        NamedQueue {
            purpose: QueuePurpose::new(kind, serves).unwrap(),
            address: address.to_owned(),
        }
    }

    #[test]
    fn a_queue_is_found_by_whom_it_serves_or_by_its_name_and_never_guessed() {
        let queues = [
            queue(
                "stage",
                "ocr",
                "https://sqs.eu-west-1.amazonaws.com/1/reading.fifo",
            ),
            queue("stage", "reduce", "ocr-reduce.fifo"),
            queue("standing_job", "ocr", "bec_ocr_tasks"),
            queue("standing_job", "press", "bec_press_tasks"),
        ];
        let found = |named: &str| find(&queues, named).map_err(|refusal| refusal.to_string());
        for (named, place) in [
            ("reading.fifo", 0),
            ("reduce", 1),
            ("ocr-reduce.fifo", 1),
            ("bec_ocr_tasks", 2),
            ("press", 3),
        ] {
            assert_eq!(found(named), Ok(&queues[place]), "{named}");
        }
        assert_eq!(
            found("ocr").unwrap_err(),
            "ocr means several queues: reading.fifo of stage ocr, bec_ocr_tasks of standing job ocr; give the name of a queue"
        );
        assert_eq!(
            found("pres").unwrap_err(),
            "there is no queue pres (did you mean press?); the queues are reading.fifo of stage ocr, ocr-reduce.fifo of \
             stage reduce, bec_ocr_tasks of standing job ocr, bec_press_tasks of standing job press"
        );
        assert_eq!(
            find(&queues[3..], "ocr").unwrap_err().to_string(),
            "there is no queue ocr; the queues are bec_press_tasks of standing job press"
        );
    }
}
