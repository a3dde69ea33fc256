//! Prompt of the editor.

use std::borrow::Cow;

use reedline::{Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus};

use crate::session::{InTouch, Line};

/// Prompt with the name of the leader, or the lack of a leader or connection.
pub struct LeaderPrompt(pub Line);

fn message(now: &InTouch) -> String {
    match (&now.leader, &now.asked) {
        (_, None) => "parkhang (out of touch)".to_owned(),
        (None, Some(_)) => "parkhang (nobody leads)".to_owned(),
        (Some(leader), Some(_)) => {
            // Without what tells its process from the one before.
            let name = leader.rsplit_once('.').map_or(leader.as_str(), |(name, _)| name);
            format!("parkhang {name}")
        }
    }
}

impl Prompt for LeaderPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        message(&self.0.in_touch()).into()
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
        let now = |leader: Option<&str>, asked: Option<&str>| InTouch {
            leader: leader.map(str::to_owned),
            asked: asked.map(str::to_owned),
        };
        let led = now(Some("orch-1.eu.0badcafe"), Some("orch-1.eu.0badcafe"));
        assert_eq!(message(&led), "parkhang orch-1.eu");
        assert_eq!(message(&now(None, Some("orch-2.1"))), "parkhang (nobody leads)");
        assert_eq!(message(&now(None, None)), "parkhang (out of touch)");
    }
}
