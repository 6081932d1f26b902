//! The journal with and without a store. One engine serves all that needs one, because a process can have only one.
//!
//! Never: two tests that both open the engine.

use super::*;
use connectors::clickhouse::{StoreAddress, locate, schema, serve_in_process};
use tempfile::{TempDir, tempdir};

fn journal(dir: &TempDir) -> EpochJournal {
    EpochJournal::open(dir.path()).unwrap()
}

/// Blocks that overlap nowhere.
#[track_caller]
fn assert_apart(mut firsts: Vec<u64>) {
    firsts.sort_unstable();
    assert!(firsts.windows(2).all(|pair| pair[0] + BLOCK <= pair[1]), "{firsts:?}");
}

#[tokio::test]
async fn blocks_never_overlap_and_a_capture_keeps_its_own() {
    let dir = tempdir().unwrap();
    let first = journal(&dir);
    let run = first.next(0).await.unwrap();
    let capture = first.of_identity("digest", 0).await.unwrap();
    let reopened = journal(&dir);
    assert_eq!(reopened.of_identity("digest", 0).await.unwrap(), capture);
    let again = reopened.next(capture + 7 * BLOCK).await.unwrap();
    assert!(run + BLOCK <= capture && capture + 7 * BLOCK <= again);
    assert!(journal(&dir).next(0).await.unwrap() >= again + BLOCK);
}

#[test]
fn blocks_begin_on_one_grid_above_all_that_was_used() {
    let record = |first| Record { identity: RUN.to_owned(), first };
    for (records, greatest, least, first) in [
        (vec![], None, 0, 1),
        (vec![], None, 1, 1),
        (vec![], None, 2, BLOCK + 1),
        (vec![], Some(1), 0, BLOCK + 1),
        (vec![record(1)], Some(2 * BLOCK + 1), 0, 3 * BLOCK + 1),
        (vec![record(5 * BLOCK + 1)], Some(1), 0, 6 * BLOCK + 1),
        (vec![record(7)], None, 0, 2 * BLOCK + 1),
        (vec![record(1)], Some(1), 3 * BLOCK + 1, 3 * BLOCK + 1),
        (vec![record(1)], Some(1), 3 * BLOCK + 2, 4 * BLOCK + 1),
    ] {
        assert_eq!(free_block(&records, greatest, least).unwrap(), first, "{records:?} {greatest:?} {least}");
    }
    for (greatest, least) in [(None, u64::MAX), (Some(u64::MAX), 0), (Some(u64::MAX - BLOCK), 0)] {
        assert!(matches!(free_block(&[], greatest, least), Err(EpochError::Exhausted { .. })));
    }
}

#[tokio::test]
async fn processes_that_share_a_directory_never_get_the_same_block() {
    let dir = tempdir().unwrap();
    let path = dir.path().to_path_buf();
    let reserve = move |path: PathBuf| async move {
        let mut firsts = Vec::new();
        for _ in 0..20 {
            firsts.push(EpochJournal::open(&path).unwrap().next(0).await.unwrap());
        }
        firsts
    };
    let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(reserve(path.clone()))).collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), 80);
    assert_apart(all);
}

#[tokio::test]
async fn a_line_cut_short_was_never_used_but_a_damaged_one_is_refused() {
    let dir = tempdir().unwrap();
    journal(&dir).next(0).await.unwrap();
    let path = dir.path().join("epochs.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{good}{{\"identi")).unwrap();
    assert!(journal(&dir).next(0).await.unwrap() > BLOCK);
    fs::write(&path, format!("{{\"identi\n{good}")).unwrap();
    assert!(matches!(EpochJournal::open(dir.path()), Err(EpochError::Damaged { line: 1, .. })));
}

#[tokio::test]
async fn without_an_answer_of_the_store_nothing_is_handed_out() {
    let dir = tempdir().unwrap();
    let away = EpochBlocks::new(StoreAddress::at("http://127.0.0.1:9").client());
    let error = journal(&dir).shared(away.clone()).next(0).await.unwrap_err();
    assert!(matches!(error, EpochError::Shared(_)) && error.exit() == Exit::Store, "{error}");
    assert!(matches!(journal(&dir).shared(away).of_identity("digest", 0).await, Err(EpochError::Shared(_))));
}

/// A store of a scenario's own.
async fn store(url: &str, name: &str) -> StoreAddress {
    let address = StoreAddress { database: name.to_owned(), ..StoreAddress::at(url) };
    schema::apply(&address).await.unwrap();
    address
}

fn on(dir: &TempDir, store: &StoreAddress) -> EpochJournal {
    journal(dir).shared(EpochBlocks::new(store.client()))
}

async fn execute(store: &StoreAddress, sql: &str) {
    store.client().query(sql).execute().await.unwrap();
}

#[tokio::test]
async fn hosts_on_one_store() {
    let directory = tempdir().unwrap();
    let engine = serve_in_process(&locate(None).unwrap(), directory.path()).await.unwrap();
    hosts_that_race_never_get_the_same_block(&store(engine.url(), "race").await).await;
    hosts_that_race_without_deduplication_are_apart_too(&store(engine.url(), "plain").await).await;
    a_capture_has_one_block_on_all_hosts(&store(engine.url(), "captures").await).await;
    one_of_the_two_journals_may_be_lost(&store(engine.url(), "lost").await).await;
    a_block_that_another_host_took_is_passed_over(&store(engine.url(), "taken").await).await;
    drop(engine);
}

async fn reserve_on(dirs: Vec<TempDir>, store: &StoreAddress, times: usize) -> Vec<u64> {
    let reserve = |dir: TempDir, store: StoreAddress| async move {
        let mut firsts = Vec::new();
        while firsts.len() < times {
            match on(&dir, &store).next(0).await {
                Ok(first) => firsts.push(first),
                Err(EpochError::Contended) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        (firsts, dir)
    };
    let tasks: Vec<_> = dirs.into_iter().map(|dir| tokio::spawn(reserve(dir, store.clone()))).collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap().0);
    }
    all
}

async fn hosts_that_race_never_get_the_same_block(store: &StoreAddress) {
    let dirs = (0..4).map(|_| tempdir().unwrap()).collect();
    let all = reserve_on(dirs, store, 6).await;
    assert_eq!(all.len(), 24);
    assert_apart(all);
}

async fn hosts_that_race_without_deduplication_are_apart_too(store: &StoreAddress) {
    execute(store, "ALTER TABLE epoch_blocks MODIFY SETTING non_replicated_deduplication_window = 0").await;
    let dirs = (0..3).map(|_| tempdir().unwrap()).collect();
    assert_apart(reserve_on(dirs, store, 3).await);
}

async fn a_capture_has_one_block_on_all_hosts(store: &StoreAddress) {
    let (one, other, third) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let first = on(&one, store).of_identity("digest", 0).await.unwrap();
    let run = on(&other, store).next(0).await.unwrap();
    assert_eq!(on(&other, store).of_identity("digest", 9 * BLOCK).await.unwrap(), first);
    assert_eq!(journal(&other).of_identity("digest", 0).await.unwrap(), first, "noted in the file as well");
    let second = on(&other, store).of_identity("another", 0).await.unwrap();
    assert_eq!(on(&one, store).of_identity("another", 0).await.unwrap(), second);
    assert_eq!(on(&third, store).of_identity("digest", 0).await.unwrap(), first);
    assert_apart(vec![first, run, second, on(&third, store).next(0).await.unwrap()]);
}

async fn one_of_the_two_journals_may_be_lost(store: &StoreAddress) {
    let (kept, lost) = (tempdir().unwrap(), tempdir().unwrap());
    let capture = on(&kept, store).of_identity("digest", 0).await.unwrap();
    let mut all = vec![capture];
    for dir in [&kept, &lost, &lost] {
        all.push(on(dir, store).next(0).await.unwrap());
    }
    drop(lost);
    all.push(on(&tempdir().unwrap(), store).next(0).await.unwrap());
    all.push(on(&kept, store).next(0).await.unwrap());
    execute(store, "DROP TABLE epoch_blocks SYNC").await;
    schema::apply(store).await.unwrap();
    all.push(on(&kept, store).next(0).await.unwrap());
    let least = all.iter().max().unwrap() + BLOCK;
    assert_eq!(on(&kept, store).of_identity("digest", least).await.unwrap(), capture, "the file still knows it");
    let stranger = tempdir().unwrap();
    assert_eq!(on(&stranger, store).of_identity("digest", 0).await.unwrap(), capture, "and tells the others again");
    // Both gone: what the store's rows have used keeps blocks apart.
    execute(store, "TRUNCATE TABLE epoch_blocks").await;
    all.push(on(&tempdir().unwrap(), store).next(least).await.unwrap());
    assert_apart(all);
}

async fn a_block_that_another_host_took_is_passed_over(store: &StoreAddress) {
    let (mine, other) = (tempdir().unwrap(), tempdir().unwrap());
    let capture = journal(&mine).of_identity("digest", 0).await.unwrap();
    let run = on(&other, store).next(0).await.unwrap();
    assert_eq!(run, capture, "reserved without a store, so nobody knew");
    let moved = on(&mine, store).of_identity("digest", 0).await.unwrap();
    assert_apart(vec![run, moved]);
    assert_eq!(on(&mine, store).of_identity("digest", 0).await.unwrap(), moved);
    // A claim that was lost, row and all: the server drops every later one, so the block is nobody's.
    execute(store, "ALTER TABLE epoch_blocks DELETE WHERE 1 SETTINGS mutations_sync = 1").await;
    let fresh = tempdir().unwrap();
    assert!(on(&fresh, store).next(0).await.unwrap() >= moved + BLOCK);
}
