//! Prompt of the editor.

use std::borrow::Cow;

use parkhang_actors::cluster::InTouch;
use reedline::{Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus};

use super::line::Line;

/// Prompt with the name of the leader, or the lack of a leader or connection.
pub struct LeaderPrompt(pub Line);

fn told(now: &InTouch) -> String {
    match (&now.leader, now.desks.is_empty()) {
        (_, true) => "parkhang (out of touch)".to_owned(),
        (None, false) => "parkhang (nobody leads)".to_owned(),
        (Some(leader), false) => {
            // Without the suffix that makes the name unique to a process.
            let name = leader.rsplit_once('.').map_or(leader.as_str(), |(name, _)| name);
            format!("parkhang {name}")
        }
    }
}

impl Prompt for LeaderPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        told(&self.0.in_touch()).into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "| ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing like ",
        };
        format!("(search: {found}{}) ", search.term).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_says_who_leads() {
        let now = |leader: Option<&str>, desks: &[&str]| InTouch {
            leader: leader.map(str::to_owned),
            desks: desks.iter().map(ToString::to_string).collect(),
        };
        let led = now(Some("orch-1.eu.0badcafe"), &["orch-1.eu.0badcafe"]);
        assert_eq!(told(&led), "parkhang orch-1.eu");
        assert_eq!(told(&now(None, &["orch-2.1"])), "parkhang (nobody leads)");
        assert_eq!(told(&now(None, &[])), "parkhang (out of touch)");
    }
}
