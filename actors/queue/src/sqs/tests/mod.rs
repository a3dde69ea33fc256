//! Queues of SQS against servers of other people and, where the environment names one, against another.

mod external;
