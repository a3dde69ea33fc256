//! `node` as an operator runs it: real processes over real pages, each test with an output folder of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code fails by panicking"
)]

mod actors;
mod ahead;
mod api;
mod bad_input;
mod buckets;
mod cleaning;
mod cluster_setup;
mod combined;
mod commands;
mod corrections;
mod databases;
mod deploy;
mod document_services;
mod documents;
mod encrypted;
mod engines;
mod entities;
mod exports;
mod filings;
mod first_design;
mod generations;
mod http_service;
mod idle;
mod intake;
mod interrupted;
mod jobs;
mod named_models;
mod nodes;
mod odd_scans;
mod one_door;
mod page_layers;
mod page_messages;
mod page_ocr;
mod process;
mod queues;
mod readings;
mod repeated;
mod repl;
mod sample;
mod search;
mod searchable;
mod searched;
mod services;
mod sessions;
mod shut_out;
mod site;
mod sources;
mod support;
mod tables_alone;
mod tutorial;
mod volumes;
mod watched;
mod workers;
