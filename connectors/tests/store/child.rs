//! The engine as a child process. The test program takes the part of `sprag`: it starts itself again, through a
//! shell, because the test harness would not understand the engine's arguments.
//!
//! Never: a process ended that the test did not start.

use super::*;
use connectors::clickhouse::{
    ChildArgs, ChildOptions, EngineChild, EngineError, running_analysts_url, running_url, serve_child, start_child,
};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Instant,
};

const ENGINE_ARGS: &str = "SPRAG_TEST_ENGINE_ARGS";
const PARENT_OF: &str = "SPRAG_TEST_PARENT_OF";

/// Starts this program with the engine's arguments in the environment, one a line.
const WRAPPER: &str = r#"exe=$1; shift; SPRAG_TEST_ENGINE_ARGS=$(printf '%s\n' "$@")
export SPRAG_TEST_ENGINE_ARGS; exec "$exe" --exact child::this_is_the_engine --nocapture"#;

pub(super) async fn start(data_dir: &Path) -> Result<EngineChild, EngineError> {
    start_at(data_dir, 0).await
}

async fn start_at(data_dir: &Path, port: u16) -> Result<EngineChild, EngineError> {
    start_with(data_dir, ChildOptions { port, ..ChildOptions::default() }).await
}

pub(super) async fn start_with(data_dir: &Path, options: ChildOptions) -> Result<EngineChild, EngineError> {
    let exe = std::env::current_exe().unwrap();
    let prefix = ["-c".into(), WRAPPER.into(), OsString::from("sh"), exe.into_os_string()];
    start_child(Path::new("/bin/sh"), &prefix, data_dir, options).await
}

fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// The hidden subcommand, when started as such.
#[test]
fn this_is_the_engine() {
    if let Ok(args) = std::env::var(ENGINE_ARGS) {
        serve_child(&ChildArgs::parse(args.lines().map(OsString::from)).unwrap()).unwrap();
    }
}

/// A parent that is killed, when started as such.
#[test]
fn this_is_a_parent() {
    let Ok(data_dir) = std::env::var(PARENT_OF) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let child = start(Path::new(&data_dir)).await.unwrap();
        println!("engine {}", child.pid());
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

/// A process that ended but was not waited for counts as gone.
fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(' ') && !rest.starts_with(" Z"))
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what} does not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn it_starts_serves_is_found_and_stops_with_its_data_kept() {
    let data_dir = scratch("child");
    let child = start(&data_dir).await.unwrap();
    let pid = child.pid();
    let address = StoreAddress::at(child.url());
    clickhouse::schema::apply(&address).await.unwrap();
    let (directory, instrument) = directory();
    let event = changes(&instrument, Version::new(1, 1), &[(Side::Bid, 100, number(1))], false);
    write(&address, &directory, WriterOptions::default(), [SinkInput::Changes(event)]).await;
    assert_eq!(running_url(&data_dir).as_deref(), Some(child.url()));

    let error = start(&data_dir).await.unwrap_err();
    assert!(matches!(&error, EngineError::InUse { holder, .. } if **holder == pid.to_string()), "{error}");
    assert!(error.to_string().contains("stop it, or choose another directory"));

    assert!(child.stop().await.unwrap().success());
    assert!(!alive(pid));
    assert_eq!(running_url(&data_dir), None);
    let mut again = start(&data_dir).await.unwrap();
    assert_eq!(live(&StoreAddress::at(again.url()), &instrument).await, [(Side::Bid, 100, number(1), 1)]);
    signal(again.pid(), "-9");
    let ended = tokio::time::timeout(Duration::from_secs(10), again.ended()).await.unwrap();
    assert_eq!(ended.and_then(|status| status.signal()), Some(9));
    assert_eq!(running_url(&data_dir), None);
    assert_eq!(again.ended().await, ended, "asked again, it says the same");
    assert_eq!(again.stop().await, ended, "stopping what has ended is no fault");
}

#[tokio::test]
async fn it_dies_with_its_parent() {
    let data_dir = scratch("orphan");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::this_is_a_parent", "--nocapture"])
        .env(PARENT_OF, &data_dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pid =
        lines.find_map(|line| line.unwrap().strip_prefix("engine ").map(|pid| pid.parse::<u32>().unwrap())).unwrap();
    assert!(alive(pid));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the engine's end", || !alive(pid)).await;
    assert_eq!(running_url(&data_dir), None);
}

#[tokio::test]
async fn dropping_the_handle_stops_it() {
    let child = start(&scratch("dropped")).await.unwrap();
    let pid = child.pid();
    drop(child);
    until("the engine's end", || !alive(pid)).await;
}

#[tokio::test]
async fn a_program_that_is_no_engine_is_told_as_such() {
    let started = start_child(Path::new("/bin/true"), &[], &scratch("none"), ChildOptions::default()).await;
    assert!(matches!(started, Err(EngineError::Ended)), "{started:?}");
    let started = start_child(Path::new("/no/such/program"), &[], &scratch("none"), ChildOptions::default()).await;
    assert!(matches!(started, Err(EngineError::System { .. })), "{started:?}");
}

#[tokio::test]
async fn an_engine_killed_while_it_inserts_loses_and_doubles_nothing() {
    let data_dir = scratch("killed");
    let mut child = start(&data_dir).await.unwrap();
    let port = child.url().rsplit(':').next().unwrap().parse().unwrap();
    let address = StoreAddress::at(child.url());
    clickhouse::schema::apply(&address).await.unwrap();
    let (directory, instrument) = directory();
    let running = Running::start(&address, &directory, WriterOptions { batch_rows: 200, ..WriterOptions::default() });
    let total = 4_000_u64;
    for seq in 1..=total {
        let rows = [(Side::Bid, i64::try_from(seq % 50).unwrap(), number(seq))];
        let event = changes(&instrument, Version::new(1, seq), &rows, false);
        running.input.send(SinkInput::Changes(event)).await.unwrap();
        if seq % 1_500 == 0 {
            until("an insert", || running.view.counters().rows_inserted > seq - 1_000).await;
            signal(child.pid(), "-9");
            child.ended().await;
            child = start_at(&data_dir, port).await.unwrap();
        }
    }
    let report = running.end().await;
    assert!(report.counters.retries > 0);
    assert_eq!(report.durable.get(&instrument.id), Some(&Version::new(1, total)));
    assert_eq!(count(&address, "tick_updates").await, total);
    let mut last: Vec<_> = live(&address, &instrument).await.into_iter().map(|tick| (tick.3, tick.2)).collect();
    last.sort_unstable();
    assert_eq!(last, (total - 49..=total).map(|seq| (seq, number(seq))).collect::<Vec<_>>());
    child.stop().await.unwrap();
}

#[tokio::test]
async fn a_signal_to_all_leaves_the_parent_its_store_until_it_is_done() {
    let data_dir = scratch("signalled");
    let child = start(&data_dir).await.unwrap();
    signal(child.pid(), "-TERM");
    signal(child.pid(), "-INT");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(running_url(&data_dir).as_deref(), Some(child.url()));
    let started = Instant::now();
    assert!(child.stop().await.unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn without_a_parent_a_signal_stops_it() {
    let data_dir = scratch("alone");
    let args = ChildArgs {
        data_dir: data_dir.clone(),
        port: 0,
        library: Some(library()),
        parent: None,
        options: vec![],
        backups: None,
        analysts: Some(AnalystOptions::default()),
    };
    let args: Vec<_> = args.to_args().into_iter().map(|arg| arg.into_string().unwrap()).collect();
    let mut alone = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::this_is_the_engine", "--nocapture"])
        .env(ENGINE_ARGS, args.join("\n"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("its address", || running_url(&data_dir).is_some()).await;
    assert!(running_analysts_url(&data_dir).is_some());
    signal(alone.id(), "-TERM");
    assert!(alone.wait().unwrap().success());
    assert_eq!((running_url(&data_dir), running_analysts_url(&data_dir)), (None, None));
}
