use crate::session::{InTouch, Session};

/// Looks for ever who leads and who is in touch, and tells whenever that changes.
pub async fn print(session: &Session) {
    let print = async {
        let mut message = session.line.in_touch();
        loop {
            let now = session.line.changed_from(&message).await;
            for news in news(&message, &now) {
                session.notices.notify(news);
            }
            message = now;
        }
    };
    tokio::select! {
        () = print => {}
        // Listening alone is not enough: nobody tells about an orchestrator that is gone.
        () = session.line.keep_looking() => {}
    }
}

fn news(before: &InTouch, now: &InTouch) -> Vec<String> {
    let mut news = Vec::new();
    match (&before.asked, &now.asked) {
        (Some(_), None) => {
            news.push("no orchestrator is in touch; it goes on by itself once one is back".to_owned());
        }
        (None, Some(asked)) => news.push(format!("back in touch with {asked}")),
        _ => {}
    }
    match (&before.leader, &now.leader) {
        (Some(one), Some(other)) if one != other => news.push(format!("{other} leads now, after {one}")),
        (None, Some(leader)) => news.push(format!("{leader} leads")),
        (Some(leader), None) if now.asked.is_some() => {
            news.push(format!("{leader} is gone or leads no more; another is about to"));
        }
        _ => {}
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_touch(leader: Option<&str>, asked: Option<&str>) -> InTouch {
        InTouch {
            leader: leader.map(str::to_owned),
            asked: asked.map(str::to_owned),
        }
    }

    #[test]
    fn a_change_of_leader_and_a_lost_line_are_news() {
        let both = in_touch(Some("one"), Some("one"));
        let orphaned = in_touch(None, Some("other"));
        let led = in_touch(Some("other"), Some("other"));
        let apart = in_touch(None, None);
        for (before, now, message) in [
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
            assert_eq!(news(before, now), message, "{before:?} {now:?}");
        }
    }
}
