//! Division of what is sent into requests.

use std::collections::HashSet;

use crate::NewMessage;
use crate::limits::{MAX_BATCH, MAX_BYTES};

/// Places of the messages of each request, for the messages at `places`. No request has two messages of a group: a batch can fail in
/// part, and what is sent again would come behind those that succeeded.
pub(super) fn requests(messages: &[NewMessage], places: &[usize]) -> Vec<Vec<usize>> {
    let mut requests: Vec<Request> = Vec::new();
    for place in places {
        let message = &messages[*place];
        let group = message.fifo.as_ref().map(|key| key.group.as_str());
        // Behind the last request that has its group, and as early as there is room.
        let after = group.and_then(|group| {
            requests
                .iter()
                .rposition(|request| request.groups.contains(group))
        });
        let first = after.map_or(0, |after| after + 1);
        let fits = |request: &&mut Request| {
            request.places.len() < MAX_BATCH && request.bytes + message.bytes() <= MAX_BYTES
        };
        match requests.iter_mut().skip(first).find(fits) {
            Some(request) => request.add(*place, group, message.bytes()),
            None => {
                let mut request = Request::default();
                request.add(*place, group, message.bytes());
                requests.push(request);
            }
        }
    }
    requests.into_iter().map(|request| request.places).collect()
}

#[derive(Default)]
struct Request<'a> {
    places: Vec<usize>,
    groups: HashSet<&'a str>,
    bytes: usize,
}

impl<'a> Request<'a> {
    fn add(&mut self, place: usize, group: Option<&'a str>, bytes: usize) {
        self.places.push(place);
        self.groups.extend(group);
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_group_goes_one_message_a_request() {
        let message = |group: &str| NewMessage::new("x").in_group(group, "d");
        let messages = ["a", "b", "a", "c", "a", "b"].map(message);
        let all: Vec<usize> = (0..messages.len()).collect();
        assert_eq!(requests(&messages, &all), [vec![0, 1, 3], vec![2, 5], vec![4]]);
    }

    proptest! {
        #[test]
        fn every_message_is_sent_once_in_requests_that_servers_take(
            spec in prop::collection::vec((0..5usize, prop_oneof![9 => 1..200usize, 1 => 100_000..MAX_BYTES]), 0..60),
            fifo: bool,
        ) {
            let message = |(group, bytes): &(usize, usize)| {
                let message = NewMessage::new("x".repeat(*bytes));
                if fifo { message.in_group(format!("g{group}"), "d") } else { message }
            };
            let messages: Vec<NewMessage> = spec.iter().map(message).collect();
            let all: Vec<usize> = (0..messages.len()).collect();
            let requests = requests(&messages, &all);
            let mut sent: Vec<usize> = requests.iter().flatten().copied().collect();
            // Within a group in order.
            for group in 0..5 {
                let of_group: Vec<usize> = sent.iter().copied().filter(|place| spec[*place].0 == group).collect();
                prop_assert!(!fifo || of_group.is_sorted());
            }
            sent.sort_unstable();
            prop_assert_eq!(sent, all);
            for request in &requests {
                prop_assert!(request.len() <= MAX_BATCH);
                prop_assert!(request.iter().map(|place| messages[*place].bytes()).sum::<usize>() <= MAX_BYTES);
            }
            if !fifo && messages.iter().all(|message| message.bytes() < 200) {
                prop_assert_eq!(requests.len(), messages.len().div_ceil(MAX_BATCH));
            }
        }
    }
}
