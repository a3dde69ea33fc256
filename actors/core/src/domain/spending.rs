//! Spending of jobs at services: what these were asked for, and what that costs.

use serde::{Deserialize, Serialize};

use super::{Amount, Fence, JobId};

/// Tokens that the prices of language models are for.
const PRICED_TOKENS: u64 = 1_000_000;

/// Prices of a service, in the currency of the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Price of one call: of a submit, or of a page.
    pub call: Amount,
    /// Price of a million tokens of requests.
    pub input: Amount,
    /// Price of a million tokens of answers.
    pub output: Amount,
}

/// Use that was made of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Use that was made of a service under a lease so far, and its cost. It only grows, so the latest one tells all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expense {
    pub fence: Fence,
    pub service: String,
    pub usage: Usage,
    pub cost: Amount,
}

/// Use that a job has made of a service, and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    pub job: JobId,
    pub service: String,
    pub usage: Usage,
    pub cost: Amount,
}

/// Answer to an expense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpendReply {
    /// It is written, and the job may spend more.
    Recorded,
    /// It is written, and the job may spend nothing more.
    UsedUp,
    /// It is not written now; to be sent again.
    Unrecorded,
}

impl Usage {
    /// One call, for which no tokens are counted.
    pub const CALL: Self = Self {
        calls: 1,
        input_tokens: 0,
        output_tokens: 0,
    };

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }

    /// The larger of each number, where both are counts of the same that only grow.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            calls: self.calls.max(other.calls),
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
        }
    }
}

impl Prices {
    pub fn cost(&self, usage: &Usage) -> Amount {
        let calls = self.call.times(usage.calls, 1);
        let input = self.input.times(usage.input_tokens, PRICED_TOKENS);
        calls
            .plus(input)
            .plus(self.output.times(usage.output_tokens, PRICED_TOKENS))
    }
}

impl Spending {
    /// Cost of all of these together.
    pub fn total<'a>(spending: impl IntoIterator<Item = &'a Self>) -> Amount {
        let costs = spending.into_iter().map(|spending| spending.cost);
        costs.fold(Amount::ZERO, Amount::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_price_to_the_last_fraction() {
        let prices = Prices {
            call: "0.0015".parse().unwrap(),
            input: "0.15".parse().unwrap(),
            output: "0.6".parse().unwrap(),
        };
        let cost = |calls, input_tokens, output_tokens| {
            let usage = Usage {
                calls,
                input_tokens,
                output_tokens,
            };
            prices.cost(&usage).to_string()
        };
        assert_eq!(cost(1000, 0, 0), "1.50");
        assert_eq!(cost(0, 1, 1), "0.00000075");
        assert_eq!(cost(2, 1_500, 400), "0.003465");
    }
}
