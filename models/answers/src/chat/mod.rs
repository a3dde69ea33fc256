//! Language models that see a page, behind chat completions: vLLM and other servers of OpenAI's interface.
//!
//! By the documentation of both (platform.openai.com/docs/api-reference/chat, docs.vllm.ai/en/latest/serving/openai_compatible_server):
//! the picture goes as a data URI, and `repetition_penalty` is vLLM's own. Loops, refusals and answers that were cut off are errors, and
//! keep the text.

mod answer;
mod repetition;
mod request;

pub use answer::{ChatAnswer, ChatError, Tokens, served_models, server_version, tokens};
pub use repetition::repetition;
pub use request::{Sampling, doctags_body, page_body, text_body};
