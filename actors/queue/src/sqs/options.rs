use std::time::Duration;

/// Place of an [`SqsServer`](super::SqsServer), and its limits of time.
///
/// Credentials are no option: they come from the chain that every AWS tool follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqsOptions {
    /// URL of another server than AWS's own.
    pub endpoint: Option<String>,
    /// Region of the queues.
    pub region: Option<String>,
    /// Time after which a request that keeps failing is given up. A receive may wait for messages on top of it.
    pub patience: Duration,
    /// Mean delay before the second try; each further one is twice as long, up to [`MAX_BACKOFF`](super::MAX_BACKOFF).
    pub backoff: Duration,
    /// Longest time until a connection is made.
    pub connect_timeout: Duration,
    /// Longest time of one try, the wait for messages not counted.
    pub answer_timeout: Duration,
}

impl Default for SqsOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            patience: Duration::from_secs(60),
            backoff: Duration::from_millis(200),
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(15),
        }
    }
}

impl SqsOptions {
    /// Options for the server of a queue of which nothing but the URL is known: it names the region on AWS, and elsewhere the
    /// endpoint.
    pub fn for_queue(url: &str) -> Self {
        let place = Place::of(url);
        Self {
            endpoint: place.endpoint,
            region: place.region,
            ..Self::default()
        }
    }

    pub fn with_endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }
}

/// What the host of a queue's URL says.
struct Place {
    endpoint: Option<String>,
    region: Option<String>,
}

impl Place {
    fn of(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let host = rest.split('/').next().unwrap_or_default();
        let labels: Vec<&str> = host.split('.').collect();
        let region = match labels.as_slice() {
            ["sqs", region, "amazonaws", "com"] | ["sqs", region, "amazonaws", "com", "cn"] => *region,
            // Names that old URLs still have.
            [region, "queue", "amazonaws", "com"] => *region,
            ["queue", "amazonaws", "com"] => "us-east-1",
            // An endpoint within a private network.
            [.., "sqs", region, "vpce", "amazonaws", "com"] => {
                return Self {
                    endpoint: Some(format!("{scheme}://{host}")),
                    region: Some((*region).to_owned()),
                };
            }
            _ => {
                return Self {
                    endpoint: Some(format!("{scheme}://{host}")),
                    region: None,
                };
            }
        };
        Self {
            endpoint: None,
            region: Some(region.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_its_queue_is() {
        let of = |url| {
            let SqsOptions { endpoint, region, .. } = SqsOptions::for_queue(url);
            (endpoint.unwrap_or_default(), region.unwrap_or_default())
        };
        let is = |endpoint: &str, region: &str| (endpoint.to_owned(), region.to_owned());
        assert_eq!(
            of("https://sqs.eu-west-1.amazonaws.com/123456789012/ocr-ocr.fifo"),
            is("", "eu-west-1")
        );
        assert_eq!(
            of("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/ocr"),
            is("", "cn-north-1")
        );
        assert_eq!(
            of("https://us-west-2.queue.amazonaws.com/1/ocr"),
            is("", "us-west-2")
        );
        assert_eq!(of("https://queue.amazonaws.com/1/ocr"), is("", "us-east-1"));
        assert_eq!(
            of("https://vpce-1-2.sqs.us-east-1.vpce.amazonaws.com/1/ocr"),
            is("https://vpce-1-2.sqs.us-east-1.vpce.amazonaws.com", "us-east-1")
        );
        assert_eq!(
            of("http://127.0.0.1:4566/000000000000/ocr"),
            is("http://127.0.0.1:4566", "")
        );
    }
}
