//! Peers of other releases: each sees an error that names what it does not know.

use parkhang_core::domain::{AssignReply, ReportReply};
use ractor::BytesConvertable;
use serde::{Deserialize, Serialize};

use crate::wire::{Drain, DrainReply, Envelope, Fault, Kind, Message, OpenError, VERSION};

/// What a peer makes of a request for a drain: reads it, or answers with what is wrong.
fn answer(request: &Envelope) -> Envelope {
    match request.open::<Drain>() {
        Ok(Drain) => Envelope::seal(&DrainReply).unwrap(),
        Err(OpenError::Unreadable(fault) | OpenError::Refused(fault)) => Envelope::fault(&fault),
    }
}

#[test]
fn a_request_that_can_be_read_is_answered() {
    let request = Envelope::seal(&Drain).unwrap();
    assert_eq!(answer(&request).open::<DrainReply>(), Ok(DrainReply));
}

#[test]
fn a_newer_envelope_is_refused_by_version() {
    let newer = Envelope::from_bytes(vec![VERSION + 1, Kind::Drain.number(), 7, 7, 7]);
    let refused = OpenError::Refused(Fault::UnknownVersion { version: VERSION + 1 });
    assert_eq!(answer(&newer).open::<DrainReply>(), Err(refused));
}

#[test]
fn a_newer_kind_is_refused_by_number() {
    let newer = Envelope::from_bytes(vec![VERSION, 200, 1, 2, 3]);
    let refused = OpenError::Refused(Fault::UnknownKind { kind: 200 });
    assert_eq!(answer(&newer).open::<DrainReply>(), Err(refused));
}

#[test]
fn a_kind_that_this_endpoint_does_not_serve_is_refused() {
    let misled = Envelope::seal(&ReportReply::Recorded).unwrap();
    let kind = Kind::ReportReply.number();
    let refused = OpenError::Refused(Fault::UnexpectedKind { kind });
    assert_eq!(answer(&misled).open::<DrainReply>(), Err(refused));
}

#[test]
fn bytes_without_a_header_are_refused() {
    for bytes in [vec![], vec![VERSION]] {
        let refused = OpenError::Refused(Fault::NoHeader);
        let answered = answer(&Envelope::from_bytes(bytes));
        assert_eq!(answered.open::<DrainReply>(), Err(refused));
    }
}

/// [`AssignReply`] as a later release might have it, against the rule that variants are not added to a kind.
#[derive(Serialize, Deserialize)]
enum LaterAssignReply {
    Accepted,
    Busy,
    Draining,
    StaleEpoch { seen: i64 },
    Refused { reason: String },
    Cold { model: String },
}

impl Message for LaterAssignReply {
    const KIND: Kind = Kind::AssignReply;
}

#[test]
fn a_newer_variant_is_malformed_and_the_known_ones_are_read() {
    let known = Envelope::seal(&LaterAssignReply::Busy).unwrap();
    assert_eq!(known.open::<AssignReply>(), Ok(AssignReply::Busy));

    let later = Envelope::seal(&LaterAssignReply::Cold {
        model: "m".to_owned(),
    });
    match later.unwrap().open::<AssignReply>() {
        Err(OpenError::Unreadable(Fault::Malformed { kind, reason })) => {
            assert_eq!(kind, Kind::AssignReply.number());
            assert!(reason.contains('5'), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_older_peer_is_understood() {
    /// [`AssignReply`] of a release that knew two answers.
    #[derive(Serialize, Deserialize)]
    enum EarlierAssignReply {
        Accepted,
        Busy,
    }
    impl Message for EarlierAssignReply {
        const KIND: Kind = Kind::AssignReply;
    }
    for (earlier, now) in [
        (EarlierAssignReply::Accepted, AssignReply::Accepted),
        (EarlierAssignReply::Busy, AssignReply::Busy),
    ] {
        assert_eq!(Envelope::seal(&earlier).unwrap().open::<AssignReply>(), Ok(now));
    }
}
