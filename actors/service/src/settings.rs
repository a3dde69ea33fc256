//! Settings of a service of the kind `jobs`.

use std::time::Duration;

use hyper::Uri;
use secrecy::SecretString;

/// Part of a path that stands for the id of a job.
pub(crate) const JOB: &str = "{job}";

/// Place and manner of a service.
#[derive(Debug, Clone)]
pub struct JobsSettings {
    pub url: String,
    pub paths: Paths,
    pub fields: Fields,
    /// Bearer token.
    pub token: Option<SecretString>,
    /// Longest time for one exchange.
    pub timeout: Duration,
    /// Largest body of a request and of an answer, in bytes.
    pub max_body: usize,
}

/// Paths below the URL of a service, in which `{job}` stands for the id of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub submit: String,
    pub status: String,
    /// Path of the result, where it is no part of the status.
    pub result: Option<String>,
    /// Path that a job is cancelled by, with the method DELETE; `None` if the service cannot.
    pub cancel: Option<String>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            submit: "/jobs".to_owned(),
            status: "/jobs/{job}".to_owned(),
            result: None,
            cancel: None,
        }
    }
}

/// Fields of a service's answers, with dots between the names of nested ones; `None` takes the first of the usual names that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    pub job: Option<String>,
    pub status: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
}

/// Reason why settings name no service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidService {
    #[error("{0:?} is no URL of a service: http:// or https://, a host, and no query")]
    Url(String),
    #[error("{0:?} is no path of a job: it begins with a slash and has {JOB} in it")]
    JobPath(String),
    #[error("{0:?} is no path: it begins with a slash")]
    Path(String),
    #[error("the token is no key of a service account: {0}")]
    Account(String),
    #[error("the token has characters that no header may have")]
    Token,
    #[error("no client for HTTPS can be made: {0}")]
    Tls(String),
}

impl JobsSettings {
    /// Usual settings of the service at a URL.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            paths: Paths::default(),
            fields: Fields::default(),
            token: None,
            timeout: Duration::from_secs(30),
            max_body: 8 << 20,
        }
    }

    /// Checks the URL and the paths.
    ///
    /// # Errors
    ///
    /// [`InvalidService`] with the first fault.
    pub fn check(&self) -> Result<(), InvalidService> {
        check_url(&self.url)?;
        let is_path =
            |path: &str| path.starts_with('/') && uri_of(&self.url, &path.replace(JOB, "job")).is_ok();
        if !is_path(&self.paths.submit) {
            return Err(InvalidService::Path(self.paths.submit.clone()));
        }
        let of_jobs = [
            Some(&self.paths.status),
            self.paths.result.as_ref(),
            self.paths.cancel.as_ref(),
        ];
        for path in of_jobs {
            match path {
                Some(path) if !is_path(path) || !path.contains(JOB) => {
                    return Err(InvalidService::JobPath(path.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Checks the URL of a service.
///
/// # Errors
///
/// [`InvalidService::Url`] if it has another scheme than HTTP, no host, or a query.
pub fn check_url(url: &str) -> Result<(), InvalidService> {
    let wrong = || InvalidService::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    if !is_http || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(wrong());
    }
    Ok(())
}

/// Address of a path below the URL of a service.
pub(crate) fn uri_of(url: &str, path: &str) -> Result<Uri, InvalidService> {
    let uri = format!("{}{path}", url.trim_end_matches('/'));
    uri.parse().map_err(|_| InvalidService::Path(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_url_and_paths_of_jobs() {
        for good in ["http://localhost:3000", "https://api.example/v2/endpoint/"] {
            assert_eq!(JobsSettings::at(good).check(), Ok(()));
        }
        for bad in ["", "localhost:3000", "ftp://x", "http://x/?a=1", "/jobs"] {
            assert!(
                matches!(JobsSettings::at(bad).check(), Err(InvalidService::Url(_))),
                "{bad}"
            );
        }
        let with = |paths: Paths| {
            let settings = JobsSettings {
                paths,
                ..JobsSettings::at("http://x")
            };
            settings.check()
        };
        let status = |status: &str| Paths {
            status: status.to_owned(),
            ..Paths::default()
        };
        assert_eq!(with(status("/status/{job}")), Ok(()));
        assert!(matches!(with(status("/status")), Err(InvalidService::JobPath(_))));
        assert!(matches!(with(status("s/{job}")), Err(InvalidService::JobPath(_))));
    }
}
