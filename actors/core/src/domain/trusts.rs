//! Trusts in the readings that a job combines.

use parkhang_algorithms::{InvalidTrust, Trust};
use serde::{Deserialize, Serialize};

use super::Input;

/// Trust in an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputTrust {
    pub input: Input,
    #[serde(flatten)]
    pub trust: Trust,
}

/// Trusts in inputs, each once; one that is not among them is trusted as one of which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<InputTrust>", into = "Vec<InputTrust>")]
pub struct Trusts(Vec<InputTrust>);

/// Trusts that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidTrusts {
    #[error("{0} is named twice")]
    Twice(Input),
    #[error("{input}: {source}")]
    Invalid {
        input: Input,
        #[source]
        source: InvalidTrust,
    },
}

impl Trusts {
    /// Trusts in these inputs, in their order.
    pub fn of<'a>(&self, inputs: impl IntoIterator<Item = &'a Input>) -> Vec<Trust> {
        let of = |input: &Input| {
            let known = self.0.iter().find(|known| known.input == *input);
            known.map(|known| known.trust.clone()).unwrap_or_default()
        };
        inputs.into_iter().map(of).collect()
    }

    /// Inputs that are named.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.0.iter().map(|known| &known.input)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<InputTrust>> for Trusts {
    type Error = InvalidTrusts;

    fn try_from(given: Vec<InputTrust>) -> Result<Self, InvalidTrusts> {
        let mut trusts: Vec<InputTrust> = Vec::with_capacity(given.len());
        for InputTrust { input, trust } in given {
            if trusts.iter().any(|known| known.input == input) {
                return Err(InvalidTrusts::Twice(input));
            }
            match trust.validated() {
                Ok(trust) => trusts.push(InputTrust { input, trust }),
                Err(source) => return Err(InvalidTrusts::Invalid { input, source }),
            }
        }
        Ok(Self(trusts))
    }
}

impl From<Trusts> for Vec<InputTrust> {
    fn from(trusts: Trusts) -> Self {
        trusts.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Trusts, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn whoever_is_not_named_is_trusted_as_an_unknown_one() {
        let known = r#"{"input":"ocr-8","weight":2.5,"curve":[{"confidence":0.5,"probability":0.75}],"unsaid":0.9,"omission":0.6}"#;
        let trusts = read(&format!("[{known}]")).unwrap();
        assert_eq!(serde_json::to_string(&trusts).unwrap(), format!("[{known}]"));
        let inputs: Vec<Input> = ["gv", "ocr-8"].map(|name| name.parse().unwrap()).into();
        let found = trusts.of(&inputs);
        assert_eq!((&found[0], found[1].weight), (&Trust::default(), 2.5));
        assert!(
            read(&format!("[{known},{known}]"))
                .unwrap_err()
                .contains("ocr-8 is named twice")
        );
        let refused = read(&format!("[{}]", known.replace("2.5", "-1"))).unwrap_err();
        assert!(refused.contains("ocr-8: -1 is no weight"), "{refused}");
    }
}
