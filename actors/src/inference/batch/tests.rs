use std::sync::atomic::Ordering;

use super::*;
use crate::inference::testing::{Doubling, Picky, memory};

/// Rows: F29.
#[test]
fn a_batch_too_large_for_the_device_is_halved_and_its_size_remembered() {
    let (model, memory) = (Doubling { memory: 2 }, memory());
    let inputs = [2, 4, 6, 8, 10];
    assert_eq!(
        run_batch("doubling", &model, &memory, &inputs),
        [4, 8, 12, 16, 20].map(Ok)
    );
    assert_eq!(memory.allowed(model.capacity()), 2);
    // A clone knows it as well, and another network of the device does not.
    assert_eq!(memory.clone().allowed(model.capacity()), 2);
    let other = DeviceMemory {
        network: NetworkOnDevice {
            model: "other".to_owned(),
            ..memory.network.clone()
        },
        ..memory
    };
    assert_eq!(other.allowed(model.capacity()), 8);
}

fn answers(model: &Picky) -> Vec<Result<f32, InferenceError>> {
    run_batch("picky", model, &memory(), &[1, 2, 3])
}

#[test]
fn what_fails_alone_fails_and_nothing_else_does() {
    let picky = Picky {
        rejected: Some(2),
        ..Picky::default()
    };
    let [Ok(_), Err(InferenceError::Failed(reason)), Ok(_)] = &answers(&picky)[..] else {
        panic!("{:?}", answers(&picky));
    };
    assert_eq!(reason, "odd shape");
    let picky = Picky {
        too_large: Some(3),
        ..Picky::default()
    };
    let [Ok(_), Ok(_), Err(InferenceError::OutOfMemory(_))] = &answers(&picky)[..] else {
        panic!("{:?}", answers(&picky));
    };
}

#[test]
fn a_device_that_fails_on_what_it_is_known_to_answer_is_to_blame() {
    // Its memory is full, or it is lost.
    for picky in [
        Picky {
            too_large: Some(0),
            rejected: Some(1),
            ..Picky::default()
        },
        Picky {
            lost: true.into(),
            ..Picky::default()
        },
    ] {
        let answers = answers(&picky);
        let is_device = |answer: &Result<f32, _>| matches!(answer, Err(InferenceError::Device(_)));
        assert!(answers.iter().all(is_device), "{answers:?}");
        assert_eq!(picky.passes.load(Ordering::Relaxed), 2, "the batch and the probe");
    }
    // It is lost under the second request, and not asked any more.
    let picky = Picky {
        rejected: Some(1),
        lost_at: Some(2),
        ..Picky::default()
    };
    picky.passes.store(0, Ordering::Relaxed);
    let answers = answers(&picky);
    assert!(
        matches!(answers[2], Err(InferenceError::Device(_))),
        "{answers:?}"
    );
}
