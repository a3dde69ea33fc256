//! Orders to nodes and their outcomes, as documents.

use super::message::{Order, OrderReply};
use super::translate::Unusable;
use parkhang_core::domain::{Epoch, NodeOrder, OrderOutcome};

impl Order {
    pub(crate) fn new(epoch: Epoch, id: i64, order: &NodeOrder) -> Result<Self, Unusable> {
        let order = serde_json::to_string(order).map_err(|error| Unusable::new("order", error))?;
        Ok(Self { epoch, id, order })
    }

    pub(crate) fn order(&self) -> Result<NodeOrder, Unusable> {
        serde_json::from_str(&self.order).map_err(|error| Unusable::new("order", error))
    }
}

impl OrderReply {
    pub(crate) fn new(outcome: &OrderOutcome) -> Result<Self, Unusable> {
        let outcome =
            serde_json::to_string(outcome).map_err(|error| Unusable::new("outcome of an order", error))?;
        Ok(Self { outcome })
    }

    pub(crate) fn outcome(&self) -> Result<OrderOutcome, Unusable> {
        serde_json::from_str(&self.outcome).map_err(|error| Unusable::new("outcome of an order", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_a_later_release_gives_is_not_taken_for_another() {
        let order = Order {
            epoch: Epoch(1),
            id: 1,
            order: r#"{"order":"dance","actor":"ocr"}"#.to_owned(),
        };
        let error = order.order().unwrap_err().to_string();
        assert!(error.contains("dance"), "{error}");
        let known = Order::new(Epoch(1), 1, &NodeOrder::Drain).unwrap();
        assert_eq!(known.order().unwrap(), NodeOrder::Drain);
        let outcome = OrderOutcome::refused("it is not there");
        assert_eq!(OrderReply::new(&outcome).unwrap().outcome().unwrap(), outcome);
    }
}
