use std::fmt::Debug;

use proptest::prelude::*;
use ractor::BytesConvertable;

use super::strategies;
use crate::wire::{
    CancelReply, Drain, DrainReply, Envelope, Fault, Kind, MAX_MESSAGE, Message, NoticeReply, OpenError,
};

/// Sends `message` as bytes and reads it at the other end.
fn arrives<M: Message + PartialEq + Debug>(message: &M) -> Result<(), TestCaseError> {
    let sent = Envelope::seal(message).unwrap();
    let received = Envelope::from_bytes(sent.into_bytes());
    prop_assert_eq!(received.kind(), Ok(M::KIND));
    prop_assert_eq!(&received.open::<M>().unwrap(), message);
    Ok(())
}

macro_rules! round_trips {
    ($($message:ident),+) => {
        proptest! {
            $(#[test]
            fn $message(message in strategies::$message()) {
                arrives(&message)?;
            })+
        }
    };
}

round_trips!(
    handshake,
    endpoint_info,
    assign,
    assign_reply,
    heartbeat,
    heartbeat_reply,
    report,
    report_reply,
    cancel,
    node_notice,
    command,
    command_reply,
    spend,
    spend_reply
);

#[test]
fn messages_without_content() {
    arrives(&Drain).unwrap();
    arrives(&DrainReply).unwrap();
    arrives(&CancelReply).unwrap();
    arrives(&NoticeReply).unwrap();
}

proptest! {
    #[test]
    fn a_fault_is_read_as_the_refusal_of_what_was_asked(fault in strategies::fault()) {
        arrives(&fault)?;
        let refusal = Envelope::fault(&fault);
        prop_assert_eq!(refusal.open::<Drain>(), Err(OpenError::Refused(fault)));
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let envelope = Envelope::from_bytes(bytes.clone());
        for kind in [crate::wire::VERSION, 0, 255] {
            let mut headed = vec![crate::wire::VERSION, kind];
            headed.extend_from_slice(&bytes);
            let _ = open_as_anything(&Envelope::from_bytes(headed));
        }
        // Only a header of a known version and kind makes bytes a message.
        let is_known = |number: u8| Kind::ALL.iter().any(|kind| kind.number() == number);
        if !matches!(bytes[..], [crate::wire::VERSION, kind, ..] if is_known(kind)) {
            prop_assert!(envelope.kind().is_err());
            prop_assert!(open_as_anything(&envelope).is_err());
        }
    }

    #[test]
    fn a_message_cut_short_or_continued_is_malformed(message in strategies::assign(), cut in any::<prop::sample::Index>()) {
        let bytes = Envelope::seal(&message).unwrap().into_bytes();
        let short = bytes[..2 + cut.index(bytes.len() - 2)].to_vec();
        let long = [bytes, vec![0]].concat();
        for wrong in [short, long] {
            let opened = Envelope::from_bytes(wrong).open::<crate::wire::Assign>();
            let malformed = matches!(opened, Err(OpenError::Unreadable(Fault::Malformed { .. })));
            prop_assert!(malformed, "{opened:?}");
        }
    }
}

fn open_as_anything(envelope: &Envelope) -> Result<(), OpenError> {
    use crate::wire::*;
    use parkhang_core::domain::{AssignReply, ReportReply, SpendReply};
    match envelope.kind()? {
        Kind::Fault => envelope.open::<Fault>().map(drop),
        Kind::Handshake => envelope.open::<Handshake>().map(drop),
        Kind::EndpointInfo => envelope.open::<EndpointInfo>().map(drop),
        Kind::Assign => envelope.open::<Assign>().map(drop),
        Kind::AssignReply => envelope.open::<AssignReply>().map(drop),
        Kind::Heartbeat => envelope.open::<Heartbeat>().map(drop),
        Kind::HeartbeatReply => envelope.open::<HeartbeatReply>().map(drop),
        Kind::Report => envelope.open::<Report>().map(drop),
        Kind::ReportReply => envelope.open::<ReportReply>().map(drop),
        Kind::Drain => envelope.open::<Drain>().map(drop),
        Kind::DrainReply => envelope.open::<DrainReply>().map(drop),
        Kind::Cancel => envelope.open::<Cancel>().map(drop),
        Kind::CancelReply => envelope.open::<CancelReply>().map(drop),
        Kind::NodeNotice => envelope.open::<NodeNotice>().map(drop),
        Kind::NoticeReply => envelope.open::<NoticeReply>().map(drop),
        Kind::Command => envelope.open::<Command>().map(drop),
        Kind::CommandReply => envelope.open::<CommandReply>().map(drop),
        Kind::AssignDocument => envelope.open::<AssignDocument>().map(drop),
        Kind::Spend => envelope.open::<Spend>().map(drop),
        Kind::SpendReply => envelope.open::<SpendReply>().map(drop),
        Kind::Askers => envelope.open::<Askers>().map(drop),
        Kind::AskersReply => envelope.open::<AskersReply>().map(drop),
    }
}

#[test]
fn a_message_over_the_limit_is_refused_by_sender_and_receiver() {
    let reply = |length| parkhang_core::domain::AssignReply::Refused {
        reason: "r".repeat(length),
    };
    // Header, variant, and a length of three bytes.
    let fits = MAX_MESSAGE - 2 - 1 - 3;
    let full = Envelope::seal(&reply(fits)).unwrap().into_bytes();
    assert_eq!(full.len(), MAX_MESSAGE);
    assert!(
        Envelope::from_bytes(full.clone())
            .open::<parkhang_core::domain::AssignReply>()
            .is_ok()
    );

    let over = Fault::TooLarge {
        bytes: MAX_MESSAGE as u64 + 1,
    };
    assert_eq!(Envelope::seal(&reply(fits + 1)), Err(over.clone()));
    let received = Envelope::from_bytes([full, vec![0]].concat());
    assert_eq!(received.kind(), Err(over.clone()));
    assert_eq!(
        received.open::<parkhang_core::domain::AssignReply>(),
        Err(OpenError::Unreadable(over))
    );
}

#[test]
fn numbers_of_kinds_are_told_apart() {
    for (index, kind) in Kind::ALL.iter().enumerate() {
        assert_eq!(usize::from(kind.number()), index, "{kind:?}");
        assert_eq!(Kind::try_from(kind.number()), Ok(*kind));
    }
}
