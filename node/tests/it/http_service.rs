//! Services of others, for tests of processes that ask them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Request that came: path, headers in small letters, body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: String,
    pub(crate) body: Value,
}

type Script = dyn FnMut(&Asked) -> (u16, Value) + Send;

/// HTTP server for the life of the test.
pub(crate) struct Service {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    pub(crate) fn by(script: impl FnMut(&Asked) -> (u16, Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (noted, script) = (
            asked.clone(),
            Arc::new(Mutex::new(Box::new(script) as Box<Script>)),
        );
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (noted, script) = (noted.clone(), script.clone());
                std::thread::spawn(move || {
                    if let Some(asked) = read(&stream) {
                        let (status, body) = (script.lock().unwrap())(&asked);
                        noted.lock().unwrap().push(asked);
                        answer(stream, status, &body.to_string());
                    }
                });
            }
        });
        Self { url, asked }
    }

    /// Requests with a body.
    pub(crate) fn readings(&self) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|asked| !asked.body.is_null())
            .cloned()
            .collect()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let headers = head.to_lowercase();
    let length = headers.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    lines.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Asked { path, headers, body })
}

fn answer(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // Whoever asked may have gone.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Answer of a language model.
pub(crate) fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    })
}
