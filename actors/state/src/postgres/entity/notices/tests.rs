use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use parkhang_core::domain::testing::stage;
use parkhang_core::domain::{EntityPipeline, EntityStage, EntityStatus, StageLimits};
use parkhang_core::policy::entity::EntityEvent;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, raw_sql};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Mutex;

use super::super::*;
use super::*;
use crate::PostgresStore;
use crate::postgres::tests;

fn pipeline() -> Arc<EntityPipeline> {
    let named = |name: &str, next: Option<&str>| EntityStage {
        name: stage(name),
        next: next.map(stage),
        limits: StageLimits::default(),
    };
    let stages = vec![named("scrape", Some("intel")), named("intel", None)];
    Arc::new(EntityPipeline::new("leads", "leads", stages).unwrap())
}

async fn run(store: &PostgresStore, script: &str) {
    let script = AssertSqlSafe(script.to_owned());
    raw_sql(script).execute(&store.pool).await.unwrap();
}

async fn table(store: &PostgresStore) -> EntityTable {
    run(store, &EntityTable::schema(&pipeline())).await;
    run(store, "insert into leads default values").await;
    store.entity_database().open(pipeline()).await.unwrap()
}

/// Notices that have come until one of a row that is queued for the second stage.
async fn until_intel(queued: &mut QueuedRows) -> Vec<Option<StageName>> {
    let mut heard = Vec::new();
    while heard.last() != Some(&Some(stage("intel"))) {
        heard.push(queued.next().await.unwrap());
    }
    heard
}

/// Rows: 225.
#[tokio::test]
async fn rows_are_announced_that_anybody_but_a_worker_queues() {
    let store = tests::store().await;
    let table = table(&store).await;
    let mut queued = table.queued_rows().await.unwrap().unwrap();
    run(&store, "update leads set scrape_status = 'queued'").await;
    run(&store, "insert into leads (scrape_status) values ('queued')").await;
    let claimed = table.claim(&stage("scrape"), 1).await.unwrap().remove(0);
    let (first, job) = (table.pipeline().first().unwrap().clone(), "j".to_owned());
    for event in [
        EntityEvent::Submitted {
            claim: claimed.claim,
            job: job.clone(),
        },
        EntityEvent::Completed { job },
    ] {
        table
            .step(&first, &claimed.id, &event, Finding::Nothing)
            .await
            .unwrap();
    }
    table
        .queue(&stage("intel"), &[EntityStatus::Pending], None)
        .await
        .unwrap();
    let scrape = Some(stage("scrape"));
    let heard = until_intel(&mut queued).await;
    assert_eq!(heard, [scrape.clone(), scrape, Some(stage("intel"))]);

    run(
        &store,
        "select pg_terminate_backend(pid) from pg_stat_activity where query like 'LISTEN%' and pid <> pg_backend_pid()",
    )
    .await;
    assert_eq!(
        queued.next().await.unwrap(),
        None,
        "anything may have been missed"
    );
    run(&store, "update leads set intel_status = 'queued'").await;
    until_intel(&mut queued).await;
}

/// Address of a pooler in front of a server that passes no LISTEN on, as one that gives each transaction another session.
async fn pooler(socket: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.split();
                let (mut from_server, mut to_server) = server.split();
                let asked = async {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                        let asked = &mut bytes[..length];
                        let statement = b"LISTEN \"parkhang_leads\"";
                        if let Some(at) = asked.windows(statement.len()).position(|part| part == statement) {
                            asked[at..at + statement.len()].copy_from_slice(b"SELECT 1              ;");
                        }
                        to_server.write_all(asked).await.unwrap();
                    }
                };
                let answered = tokio::io::copy(&mut from_server, &mut to_client);
                tokio::select! { () = asked => {}, _ = answered => {} }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_pooler_that_passes_no_notices_on_is_found_out() {
    let store = tests::store().await;
    table(&store).await;
    let options = store.pool.connect_options();
    let socket = options.get_socket().unwrap().join(".s.PGSQL.5432");
    let behind = PgConnectOptions::new()
        .host("127.0.0.1")
        .port(pooler(socket).await)
        .username(options.get_username())
        .database(options.get_database().unwrap());
    let behind = PostgresStore::connect_with(behind).await.unwrap();
    let table = behind.entity_database().open(pipeline()).await.unwrap();
    assert!(table.queued_rows().await.unwrap().is_none());
}

/// Address of a pooler that lends the one session that it has to whoever asks, until the transaction is over. Counts what asks to listen.
async fn lender(socket: PathBuf, user: &str, database: &str, listens: Arc<AtomicUsize>) -> u16 {
    let mut server = UnixStream::connect(&socket).await.unwrap();
    let startup = format!("\0\x03\0\0user\0{user}\0database\0{database}\0\0");
    server.write_i32(startup.len() as i32 + 4).await.unwrap();
    server.write_all(startup.as_bytes()).await.unwrap();
    let mut greeting = Vec::new();
    while !is_ready(&answer(&mut server, &mut greeting).await) {}
    let server = Arc::new(Mutex::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(lend(client, server.clone(), greeting.clone(), listens.clone()));
        }
    });
    port
}

async fn lend(
    mut client: TcpStream,
    server: Arc<Mutex<UnixStream>>,
    greeting: Vec<u8>,
    listens: Arc<AtomicUsize>,
) {
    let mut asked = vec![0; 1 << 16];
    let mut is_greeted = false;
    while let Ok(length @ 1..) = client.read(&mut asked).await {
        if !is_greeted {
            // The first request may be for TLS, which there is none of.
            let is_for_tls = length == 8;
            let said = if is_for_tls { b"N" } else { &greeting[..] };
            client.write_all(said).await.unwrap();
            is_greeted = !is_for_tls;
            continue;
        }
        let is_farewell = asked[0] == b'X';
        if is_farewell {
            return;
        }
        let mut session = server.lock().await;
        let mut length = length;
        loop {
            let asks_to_listen = asked[..length].windows(6).any(|part| part == b"LISTEN");
            listens.fetch_add(usize::from(asks_to_listen), Ordering::Relaxed);
            session.write_all(&asked[..length]).await.unwrap();
            let mut answered = Vec::new();
            let last = loop {
                let message = answer(&mut session, &mut answered).await;
                if is_ready(&message) {
                    break message;
                }
            };
            client.write_all(&answered).await.unwrap();
            let is_idle = last[5] == b'I';
            if is_idle {
                break;
            }
            length = client.read(&mut asked).await.unwrap();
        }
    }
}

/// Next message of a server, which is added to what it has said.
async fn answer(server: &mut UnixStream, said: &mut Vec<u8>) -> Vec<u8> {
    let mut message = vec![0; 5];
    server.read_exact(&mut message).await.unwrap();
    let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]) as usize;
    message.resize(length + 1, 0);
    server.read_exact(&mut message[5..]).await.unwrap();
    said.extend(&message);
    message
}

fn is_ready(message: &[u8]) -> bool {
    message[0] == b'Z'
}

#[tokio::test]
async fn a_session_that_a_pooler_lends_is_not_asked_to_listen_and_leads_no_cluster() {
    let store = tests::store().await;
    let table = table(&store).await;
    let options = store.pool.connect_options();
    let socket = options.get_socket().unwrap().join(".s.PGSQL.5432");
    let (user, database) = (options.get_username(), options.get_database().unwrap());
    let listens = Arc::new(AtomicUsize::new(0));
    let port = lender(socket, user, database, listens.clone()).await;
    let url = format!("postgres://{user}@127.0.0.1:{port}/{database}");
    let EntityDatabase { pool } = EntityDatabase::connect(&url, 2).await.unwrap();
    let behind = EntityTable { pool, ..table };
    assert!(behind.queued_rows().await.unwrap().is_none());
    assert_eq!(listens.load(Ordering::Relaxed), 0);
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, StateError::Pooled(_)), "{refused}");
}
