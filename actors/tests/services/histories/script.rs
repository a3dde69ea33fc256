//! Histories: what a service makes of the submits that it gets, and what happens meanwhile.

use proptest::prelude::*;

/// Everything that happens in a history.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) tasks: usize,
    /// Conduct at each submit, in their order; later ones go well.
    pub(crate) submits: Vec<Conduct>,
    /// Times at which the services refuse whatever they are asked, in seconds from the beginning: begin and length.
    pub(crate) outages: Vec<(u64, u64)>,
    /// Step that is taken from outside, and the seconds before it.
    pub(crate) steps: Vec<(u64, Step)>,
}

/// Conduct of a service at one submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conduct {
    pub(crate) answer: Answer,
    /// Milliseconds from the submit to the end of the job.
    pub(crate) work: u64,
    pub(crate) end: End,
    pub(crate) telling: Telling,
}

/// Answer to a submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    InTime,
    /// The job is taken; the answer comes when nobody waits for it any more.
    Late,
    /// The job is taken; the connection breaks.
    Broken,
    /// 200 with an error in place of a job.
    Nameless,
    /// 429, with the seconds that it asks for.
    Busy(Option<u64>),
    /// 503.
    Down,
    /// 200 without a body.
    Empty,
    /// 403.
    Forbidden,
    Refused,
}

/// End of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Result,
    /// A failure that may pass.
    Fails,
    /// A failure that no try will mend.
    Hopeless,
    /// It is completed and has no result.
    Nothing,
    Never,
    /// The service knows nothing of it any more.
    Forgotten,
}

/// Webhooks about the end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    Never,
    Once,
    Twice,
    /// Before the answer to the submit, of a job that takes no time.
    Early,
    /// Once, after messages that name another job, and the job for another task.
    Wrong,
}

/// Something that is done from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The leader dies, after so many more turns of the runtime; the next one comes after so many seconds.
    Death {
        turns: u8,
        gap: u64,
    },
    /// The job is paused for so many seconds.
    Pause(u64),
    Rerun(&'static str),
    Cancel,
}

impl Conduct {
    pub(crate) const GOOD: Self = Self {
        answer: Answer::InTime,
        work: 3_000,
        end: End::Result,
        telling: Telling::Once,
    };

    /// Good conduct with this answer.
    pub(crate) const fn answering(answer: Answer) -> Self {
        Self { answer, ..Self::GOOD }
    }

    /// Good conduct with this end.
    pub(crate) const fn ending(end: End) -> Self {
        Self { end, ..Self::GOOD }
    }
}

fn conducts() -> impl Strategy<Value = Conduct> {
    let answer = prop_oneof![
        12 => Just(Answer::InTime),
        2 => Just(Answer::Late),
        2 => Just(Answer::Broken),
        1 => Just(Answer::Nameless),
        2 => prop::option::of(1..90_u64).prop_map(Answer::Busy),
        2 => Just(Answer::Down),
        1 => Just(Answer::Empty),
        1 => Just(Answer::Forbidden),
        1 => Just(Answer::Refused),
    ];
    let end = prop_oneof![
        8 => Just(End::Result),
        2 => Just(End::Fails),
        1 => Just(End::Hopeless),
        1 => Just(End::Nothing),
        1 => Just(End::Never),
        1 => Just(End::Forgotten),
    ];
    let telling = prop::sample::select(vec![
        Telling::Never,
        Telling::Once,
        Telling::Twice,
        Telling::Early,
        Telling::Wrong,
    ]);
    (answer, 0..200_000_u64, end, telling).prop_map(|(answer, work, end, telling)| Conduct {
        answer,
        work,
        end,
        telling,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40_u8, 0..60_u64).prop_map(|(turns, gap)| Step::Death { turns, gap }),
        2 => (1..300_u64).prop_map(Step::Pause),
        2 => prop::sample::select(vec!["scrape", "intel"]).prop_map(Step::Rerun),
        1 => Just(Step::Cancel),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = History> {
    (
        1..5_usize,
        prop::collection::vec(conducts(), 0..16),
        prop::collection::vec((0..900_u64, 1..60_u64), 0..3),
        prop::collection::vec((0..400_u64, steps()), 0..6),
    )
        .prop_map(|(tasks, submits, outages, steps)| History {
            tasks,
            submits,
            outages,
            steps,
        })
}
