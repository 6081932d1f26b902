//! The common facts at Google's own emulator, where it is installed: that they are facts, not our opinion.
//!
//! Never: a pass without a word when it is not installed.

use crate::{LONG, common};
use std::{future::Future, path::PathBuf, pin::Pin, process::Stdio, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    task::JoinSet,
    time::timeout,
};

/// What the version that is packaged, 0.8.20, is known to do otherwise than the service.
const DEVIATIONS: [(&str, &str); 5] = [
    ("a_retry_policy_doubles_the_pause", "its pauses are 0.1, 4.9 and 5.0 s whatever the policy"),
    ("flow_control_is_obeyed", "it ignores max_outstanding_messages and max_outstanding_bytes"),
    ("a_dropped_stream_leaves_messages_to_the_next", "it goes on sending to streams that were cancelled"),
    ("a_subscriber_that_shuts_down_gives_back", "it may give the message to the stream that was cancelled"),
    ("a_message_over_the_limit_is_refused_at_once", "it takes 10,485,760 B, and does not answer beyond"),
];

type Fact = fn(Arc<str>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! facts {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), (|endpoint: Arc<str>| Box::pin(async move { common::$name(&endpoint).await })) as Fact)),*]
    };
}

/// The emulator's process; ended when dropped.
struct Google {
    _process: Child,
    endpoint: Arc<str>,
}

/// The emulator's archive, as the package's own list of files names it.
async fn archive() -> Option<PathBuf> {
    let mut list = Command::new("dpkg");
    list.args(["-L", "google-cloud-cli-pubsub-emulator"]).stderr(Stdio::null());
    let listed = list.output().await.ok()?;
    let text = String::from_utf8(listed.stdout).ok()?;
    let jar = text.lines().find(|line| line.contains("pubsub-emulator") && line.ends_with("-all.jar"))?;
    Some(jar.into()).filter(|jar: &PathBuf| jar.exists())
}

impl Google {
    async fn start() -> Option<Self> {
        let archive = archive().await?;
        let port = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
        let mut process = Command::new("java")
            .arg("-Xmx768m")
            .arg("-jar")
            .arg(archive)
            .args(["--host=127.0.0.1".to_owned(), format!("--port={port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let started = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("Server started, listening on") {
                    return true;
                }
            }
            false
        };
        assert!(timeout(LONG, started).await.unwrap(), "Google's emulator ended at its start");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self { _process: process, endpoint: format!("http://127.0.0.1:{port}").into() })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_common_facts_hold_at_googles_emulator() {
    let facts = facts![
        a_message_arrives_as_it_was_published,
        a_nack_and_a_dropped_handler_bring_the_message_again,
        a_lease_that_is_not_extended_ends,
        an_extended_lease_outlives_its_deadline,
        the_fifth_nack_makes_a_dead_letter,
        a_retry_policy_doubles_the_pause,
        a_key_keeps_its_order,
        after_a_nack_a_key_goes_on_from_there,
        exactly_once_is_flagged_and_confirmed,
        flow_control_is_obeyed,
        a_dropped_stream_leaves_messages_to_the_next,
        a_subscriber_that_shuts_down_gives_back,
        large_messages_pass,
        a_message_over_the_limit_is_refused_at_once,
    ];
    for (name, _) in DEVIATIONS {
        assert!(facts.iter().any(|(fact, _)| *fact == name), "{name} is no fact");
    }
    let Some(google) = Google::start().await else {
        println!("Google's emulator is not installed: the common tests ran against ours alone");
        return;
    };
    let mut running = JoinSet::new();
    for (name, fact) in facts {
        if let Some((_, reason)) = DEVIATIONS.iter().find(|(deviation, _)| *deviation == name) {
            println!("not at Google's emulator: {name}: {reason}");
            continue;
        }
        let endpoint = Arc::clone(&google.endpoint);
        running.spawn(async move { (name, tokio::spawn(fact(endpoint)).await.is_ok()) });
    }
    let done = running.join_all().await;
    let failed: Vec<_> = done.iter().filter(|(_, held)| !held).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "at Google's emulator these do not hold: {failed:?}");
    println!("{} common facts hold at Google's emulator too", done.len());
}
