//! Notices about changes of the leader and of connections.

use std::time::Duration;

use parkhang_actors::cluster::InTouch;

use super::session::Session;

/// Time to wait for further changes: an orchestrator that ends closes each of its connections, which should be one notice.
const SETTLING: Duration = Duration::from_millis(300);

/// Reports changes of the leader and of the connections, for ever.
pub async fn tell(session: &Session) {
    let mut told = session.line.in_touch();
    loop {
        session.line.changed_from(&told).await;
        tokio::time::sleep(SETTLING).await;
        let now = session.line.in_touch();
        for news in news(&told, &now) {
            session.notices.tell(news);
        }
        told = now;
    }
}

fn news(before: &InTouch, now: &InTouch) -> Vec<String> {
    let mut news = Vec::new();
    match (before.desks.is_empty(), now.desks.is_empty()) {
        (false, true) => {
            news.push("no orchestrator is in touch; it goes on by itself once one is back".to_owned());
        }
        (true, false) => news.push(format!("back in touch with {}", now.desks.join(", "))),
        _ => {}
    }
    match (&before.leader, &now.leader) {
        (Some(one), Some(other)) if one != other => news.push(format!("{other} leads now, after {one}")),
        (None, Some(leader)) => news.push(format!("{leader} leads")),
        (Some(leader), None) if !now.desks.is_empty() => {
            news.push(format!("{leader} is gone or leads no more; another is about to"));
        }
        _ => {}
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_touch(leader: Option<&str>, desks: &[&str]) -> InTouch {
        InTouch {
            leader: leader.map(str::to_owned),
            desks: desks.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_change_of_leader_and_a_lost_line_are_news() {
        let both = in_touch(Some("one"), &["one", "other"]);
        let orphaned = in_touch(None, &["other"]);
        let led = in_touch(Some("other"), &["other"]);
        let apart = in_touch(None, &[]);
        for (before, now, told) in [
            (&both, &both, &[][..]),
            (
                &both,
                &orphaned,
                &["one is gone or leads no more; another is about to"],
            ),
            (&both, &led, &["other leads now, after one"]),
            (&orphaned, &led, &["other leads"]),
            (
                &led,
                &apart,
                &["no orchestrator is in touch; it goes on by itself once one is back"],
            ),
            (&apart, &led, &["back in touch with other", "other leads"]),
        ] {
            assert_eq!(news(before, now), told, "{before:?} {now:?}");
        }
    }
}
