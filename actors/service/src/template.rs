//! Bodies of requests, made by templates.

use std::io;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde_json::Value as Json;

const NAME: &str = "body";
/// Instructions that a template may execute.
const FUEL: u64 = 1_000_000;

/// Template of a body in JSON. What it prints is written as JSON: texts come in quotes, with their characters escaped.
#[derive(Debug)]
pub struct BodyTemplate(Environment<'static>);

/// Reason why a template makes no body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the template of the body: {0}")]
    Template(String),
    #[error("the template makes more than {0} bytes")]
    TooLarge(usize),
    #[error("the template makes no JSON: {0}")]
    NotJson(String),
}

impl BodyTemplate {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Template`] if it is none.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Json);
        // A column that is misspelt must not become an empty text in a letter to somebody.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment
            .add_template_owned(NAME, text.to_owned())
            .map_err(|error| template(&error))?;
        Ok(Self(environment))
    }

    /// Makes the body of a context, of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if the context lacks something that the template names, or it makes no JSON, or too much.
    pub fn render(&self, context: &Json, limit: usize) -> Result<String, TemplateError> {
        let mut output = Bounded {
            bytes: Vec::new(),
            limit,
            is_over: false,
        };
        let found = self.0.get_template(NAME).map_err(|error| template(&error))?;
        let rendered = found.render_captured_to(Value::from(Serde(context)), &mut output);
        let rendered = rendered.map(drop).map_err(|error| template(&error));
        if output.is_over {
            return Err(TemplateError::TooLarge(limit));
        }
        rendered?;
        let not_json = |error: &dyn std::error::Error| TemplateError::NotJson(error.to_string());
        let body: Json = serde_json::from_slice(&output.bytes).map_err(|error| not_json(&error))?;
        Ok(body.to_string())
    }
}

fn template(error: &minijinja::Error) -> TemplateError {
    TemplateError::Template(error.to_string())
}

struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_over: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn render(text: &str, context: &Json) -> Result<Json, TemplateError> {
        let body = BodyTemplate::new(text)?.render(context, 1000)?;
        Ok(serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn a_body_is_made_of_the_row_and_of_earlier_results() {
        let context = json!({
            "row": {"company_url": "https://a.example/?q=\"x\"", "account_id": 7},
            "results": {"scrape": {"pages": ["one", "two"]}},
        });
        let made = render(
            "{\"url\": {{ row.company_url }}, \"account\": {{ row.account_id }}, \
             \"prompt\": {{ \"Sum up: \" ~ results.scrape.pages | join(\", \") }}, \"pages\": {{ results.scrape.pages }}}",
            &context,
        );
        assert_eq!(
            made.unwrap(),
            json!({
                "url": "https://a.example/?q=\"x\"", "account": 7,
                "prompt": "Sum up: one, two", "pages": ["one", "two"],
            })
        );
    }

    #[test]
    fn what_makes_no_body_says_why() {
        let context = json!({"row": {"a": 1}});
        let fault = |text: &str| render(text, &context).unwrap_err();
        assert!(matches!(fault("{{ row.a"), TemplateError::Template(_)));
        assert!(matches!(
            fault("{\"a\": {{ row.b }}}"),
            TemplateError::Template(_)
        ));
        assert!(matches!(fault("{\"a\": "), TemplateError::NotJson(_)));
        assert_eq!(
            fault("{% for i in range(9999) %}{{ i }}{% endfor %}"),
            TemplateError::TooLarge(1000)
        );
        let endless = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}";
        assert!(matches!(fault(endless), TemplateError::Template(_)));
    }

    proptest! {
        #[test]
        fn any_text_of_a_row_is_that_text_in_the_body(text in "\\PC{0,40}") {
            let made = render("{\"a\": {{ row.a }}}", &json!({"row": {"a": text}})).unwrap();
            prop_assert_eq!(made, json!({"a": text}));
        }
    }

    #[test]
    fn fuzz_templates() {
        let context =
            json!({"row": {"url": "https://a.example", "n": 7}, "results": {"pages": ["one", "two"]}});
        let corpus = [
            "{\"url\": {{ row.url }}, \"pages\": {{ results.pages | join(\", \") }}}",
            "{% for page in results.pages %}{{ page ~ row.n }}{% if not loop.last %},{% endif %}{% endfor %}",
            "{{ range(row.n) | list | tojson }}",
        ];
        parkhang_fuzz::Fuzz::of_texts("templates", corpus).feeds_texts(|text| {
            if let Ok(template) = BodyTemplate::new(text) {
                let _ = template.render(&context, 10_000);
            }
        });
    }
}
