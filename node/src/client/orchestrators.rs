//! The orchestrators of a cluster that can be asked. It does not matter which one is, as all state is in the database.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use axum::http::{HeaderValue, StatusCode};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::ORCHESTRATOR;
use super::arguments::ServerArgs;
use super::exchange::{Call, CallError, Exchanged, Failure, Method, exchange};
use super::registry::registered;
use super::tls::connector;
use super::token::{Origin, Token};
use super::url::ServerUrl;
use crate::config::Loaded;

/// Longest time for an orchestrator to say who it is. One that is frozen takes longer.
const PROBE: Duration = Duration::from_secs(5);
/// Longest time for the others, once one has said so.
const OTHERS: Duration = Duration::from_millis(500);

/// Place where orchestrators are found.
#[derive(Debug, Clone)]
enum Place {
    Named(Vec<ServerUrl>),
    /// By the registrations in this state folder.
    ThisMachine(PathBuf),
}

/// The orchestrators of a cluster, and what is shown to them.
#[derive(Clone)]
pub struct Orchestrators {
    place: Place,
    token: HeaderValue,
    origin: Origin,
    /// File with the authority of the cluster, whose certificates are believed besides those of public ones.
    ca: Option<PathBuf>,
    /// Made when it is needed: this machine's authorities are many.
    tls: Arc<OnceCell<TlsConnector>>,
}

impl fmt::Debug for Orchestrators {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Orchestrators")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// An orchestrator that answers.
#[derive(Debug, Clone)]
pub struct Met {
    pub server: ServerUrl,
    pub node: String,
}

/// The orchestrators that answer at one time, and the others.
#[derive(Debug, Default)]
pub struct Survey {
    pub leader: Option<String>,
    pub met: Vec<Met>,
    pub failures: Vec<CallError>,
}

impl Survey {
    /// The one to ask: the leader where it answers, whose answer is the freshest.
    pub fn best(&self) -> Option<&Met> {
        let leads = |met: &&Met| Some(&met.node) == self.leader.as_ref();
        self.met.iter().find(leads).or_else(|| self.met.first())
    }

    /// The reasons why nobody answers, one a line.
    pub fn troubles(&self) -> String {
        if self.failures.is_empty() {
            return "no orchestrator of this machine runs: node --role orchestrator starts one, --server names one elsewhere"
                .to_owned();
        }
        let lines = self.failures.iter().map(|failure| format!("\n  {failure}"));
        format!("no orchestrator answers{}", lines.collect::<String>())
    }
}

/// Answer of an orchestrator that says who it is.
#[derive(Deserialize)]
struct Introduction {
    node: String,
    leader: Option<String>,
}

impl Orchestrators {
    /// Those that are named; else those of this machine, or `None` where none runs.
    ///
    /// # Errors
    ///
    /// When there is no token to show, or it would cross a network in the clear.
    pub fn find(arguments: &ServerArgs, loaded: &Loaded) -> Result<Option<Self>> {
        let state = loaded.state_dir()?;
        if !arguments.server.is_empty() {
            let place = Place::Named(arguments.server.clone());
            return Self::at(place, &arguments.server, arguments, loaded).map(Some);
        }
        let registered = registered(&state)?;
        if registered.is_empty() {
            return Ok(None);
        }
        Self::at(Place::ThisMachine(state), &registered, arguments, loaded).map(Some)
    }

    /// Those that are named; else those of this machine, also where none runs yet.
    ///
    /// # Errors
    ///
    /// The same as of [`Self::find`].
    pub fn find_or_await(arguments: &ServerArgs, loaded: &Loaded) -> Result<Self> {
        match Self::find(arguments, loaded)? {
            Some(found) => Ok(found),
            None => Self::at(Place::ThisMachine(loaded.state_dir()?), &[], arguments, loaded),
        }
    }

    fn at(place: Place, servers: &[ServerUrl], arguments: &ServerArgs, loaded: &Loaded) -> Result<Self> {
        // This is checked before any token is read, so that no code path with an exposed server can hold one.
        let exposed = servers.iter().find(|server| !server.secure && !server.is_here());
        if let Some(server) = exposed
            && !arguments.plain_http
        {
            bail!(
                "{server} is another machine, and everybody on the way there could read the token: give an https:// URL, or --plain-http \
                 where the network is trusted"
            );
        }
        let token = Token::find(arguments, servers, &loaded.state_dir()?)?;
        Ok(Self {
            place,
            token: token.header()?,
            origin: token.origin,
            ca: loaded.config.cluster.tls.ca_file.clone(),
            tls: Arc::default(),
        })
    }

    /// Asks all of them who they are.
    pub async fn survey(&self) -> Survey {
        let servers = match &self.place {
            Place::Named(servers) => servers.clone(),
            // Another may have been started, and one that is just being removed says nothing.
            Place::ThisMachine(state) => registered(state).unwrap_or_default(),
        };
        let call = Call {
            method: Method::Get,
            path: ORCHESTRATOR.to_owned(),
            body: None,
            accept: "application/json",
            limit: PROBE,
        };
        let call = &call;
        let asked = servers.into_iter().map(|server| async move {
            let answer = self.call(&server, call).await;
            let answer = answer.and_then(|answer| introduced(&server, answer));
            (server, answer)
        });
        let mut answers: FuturesUnordered<_> = asked.collect();
        let mut survey = Survey::default();
        let mut until = None;
        loop {
            let next = match until {
                // When the time is up the requests that are still open are dropped with `answers`, which
                // closes their connections.
                Some(until) => timeout_at(until, answers.next()).await.ok().flatten(),
                None => answers.next().await,
            };
            match next {
                Some((server, Ok(Introduction { node, leader }))) => {
                    // The first answer starts the clock once; a later one must not extend it.
                    until = until.or_else(|| Some(Instant::now() + OTHERS));
                    // A standby names the leader too, as both read it from the database.
                    survey.leader = survey.leader.or(leader);
                    survey.met.push(Met { server, node });
                }
                Some((_, Err(error))) => survey.failures.push(error),
                None => return survey,
            }
        }
    }

    /// Has one of them answer a request. A token that it does not know is a failure.
    ///
    /// # Errors
    ///
    /// When there is no answer, or one to somebody who is not known.
    pub async fn call(&self, server: &ServerUrl, call: &Call) -> Result<Exchanged, CallError> {
        let tls = if server.secure {
            Some(self.tls(server).await?)
        } else {
            None
        };
        let answer = exchange(server, tls, &self.token, call).await?;
        // Other refusals, such as 403, are answers to a known caller and are for the command to report.
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let origin = self.origin.in_words();
        Err(CallError {
            server: server.clone(),
            failure: Failure::Denied(format!(
                "the token {origin} is not known there: the one of whoever started it is in api-token in its state folder \
                 (node.state_dir), and `node token` makes others for its api.tokens_file; --token-file names another file"
            )),
        })
    }

    async fn tls(&self, server: &ServerUrl) -> Result<&TlsConnector, CallError> {
        let made = self
            .tls
            .get_or_try_init(async || connector(self.ca.as_deref()))
            .await;
        made.map_err(|error| CallError {
            server: server.clone(),
            failure: Failure::Tls(std::io::Error::other(format!("{error:#}"))),
        })
    }
}

fn introduced(server: &ServerUrl, answer: Exchanged) -> Result<Introduction, CallError> {
    // Anything but 200 with this shape is another program at that port, to which no command may be sent.
    let body = answer.body.filter(|_| answer.status == StatusCode::OK);
    let introduction = body.and_then(|body| serde_json::from_value(body).ok());
    introduction.ok_or_else(|| CallError::stranger(server, answer.status))
}
