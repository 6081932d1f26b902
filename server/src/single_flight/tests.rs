//! Callers against a leader whose every step the test decides.
//!
//! Never: a verdict about time; every wait is for a condition.

use super::*;
use std::{panic, time::Duration};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, yield_now},
};

/// Beyond this a test hangs.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
struct Refused(usize);

/// A leader that counts its attempts, waits for a permit for each, and then does what its place in `script` says.
#[derive(Clone)]
struct Leader {
    attempts: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    script: &'static [What],
}

#[derive(Clone, Copy)]
enum What {
    Answer,
    Fail,
    Panic,
}

impl Leader {
    fn new(script: &'static [What]) -> Self {
        Self { attempts: Arc::default(), gate: Arc::new(Semaphore::new(0)), script }
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Relaxed)
    }

    async fn ask(self) -> Result<usize, Refused> {
        let attempt = self.attempts.fetch_add(1, Relaxed);
        self.gate.acquire().await.unwrap().forget();
        match self.script[attempt.min(self.script.len() - 1)] {
            What::Answer => Ok(attempt),
            What::Fail => Err(Refused(attempt)),
            What::Panic => panic!("as the script says"),
        }
    }
}

type Flight = SingleFlight<&'static str, usize, Refused>;

const WIDE: FlightBounds = FlightBounds { questions_max: 8, waiting_max: 1_000 };

fn call(flight: &Flight, key: &'static str, leader: &Leader) -> JoinHandle<Answer<usize, Refused>> {
    let (flight, leader) = (flight.clone(), leader.clone());
    tokio::spawn(async move { flight.ask(key, move || leader.clone().ask()).await })
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

async fn answers(callers: Vec<JoinHandle<Answer<usize, Refused>>>) -> Vec<Answer<usize, Refused>> {
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(tokio::time::timeout(PATIENCE, caller).await.unwrap().unwrap());
    }
    answers
}

/// Lets `count` callers ask one question, and waits until all of them wait for it.
async fn crowd(flight: &Flight, leader: &Leader, count: usize) -> Vec<JoinHandle<Answer<usize, Refused>>> {
    let callers: Vec<_> = (0..count).map(|_| call(flight, "book", leader)).collect();
    until(|| flight.numbers().waiting() == count && leader.attempts() == 1).await;
    callers
}

fn quiet() {
    panic::set_hook(Box::new(|_| {}));
}

#[tokio::test]
async fn five_hundred_callers_are_one_question() {
    let (flight, leader) = (Flight::new(WIDE), Leader::new(&[What::Answer]));
    let callers = crowd(&flight, &leader, 500).await;
    leader.gate.add_permits(10);
    let answers = answers(callers).await;
    assert!(answers.len() == 500 && answers.iter().all(|answer| matches!(answer.as_deref(), Ok(0))));
    assert_eq!(leader.attempts(), 1);
    let numbers = flight.numbers().values();
    assert_eq!(numbers[..3], [("callers", 500), ("joined", 499), ("attempts", 1)]);
    assert_eq!(flight.numbers().waiting(), 0);
}

#[tokio::test]
async fn the_first_caller_goes_and_499_are_answered() {
    let (flight, leader) = (Flight::new(WIDE), Leader::new(&[What::Answer]));
    let first = call(&flight, "book", &leader);
    until(|| leader.attempts() == 1).await;
    let callers: Vec<_> = (0..499).map(|_| call(&flight, "book", &leader)).collect();
    until(|| flight.numbers().waiting() == 500).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    until(|| flight.numbers().waiting() == 499).await;
    leader.gate.add_permits(1);
    assert!(answers(callers).await.iter().all(|answer| matches!(answer.as_deref(), Ok(0))));
    assert_eq!(leader.attempts(), 1);
}

#[tokio::test]
async fn a_failed_leader_is_replaced_once_and_all_are_answered() {
    quiet();
    for script in [&[What::Fail, What::Answer], &[What::Panic, What::Answer]] {
        let (flight, leader) = (Flight::new(WIDE), Leader::new(script));
        let callers = crowd(&flight, &leader, 500).await;
        leader.gate.add_permits(10);
        assert!(answers(callers).await.iter().all(|answer| matches!(answer.as_deref(), Ok(1))));
        assert_eq!(leader.attempts(), 2);
        assert_eq!(flight.numbers().values()[2..], [("attempts", 2), ("replaced", 1), ("failed", 0), ("refused", 0)]);
    }
}

#[tokio::test]
async fn a_leader_that_fails_twice_is_everybody_s_error() {
    quiet();
    let (flight, leader) = (Flight::new(WIDE), Leader::new(&[What::Fail]));
    let callers = crowd(&flight, &leader, 500).await;
    leader.gate.add_permits(10);
    let failed = |answer: &Answer<usize, Refused>| match answer {
        Err(FlightError::Failed(error)) => **error == Refused(1),
        _ => false,
    };
    assert!(answers(callers).await.iter().all(failed));
    assert_eq!(leader.attempts(), 2);

    let (flight, leader) = (Flight::new(WIDE), Leader::new(&[What::Fail, What::Panic]));
    let callers = crowd(&flight, &leader, 3).await;
    leader.gate.add_permits(10);
    assert!(answers(callers).await.iter().all(|answer| matches!(answer, Err(FlightError::Panicked))));
    assert_eq!(flight.numbers().values()[4], ("failed", 1));
}

#[tokio::test]
async fn nobody_waits_so_nobody_asks_again() {
    let (flight, leader) = (Flight::new(WIDE), Leader::new(&[What::Fail]));
    let only = call(&flight, "book", &leader);
    until(|| leader.attempts() == 1).await;
    only.abort();
    until(|| flight.numbers().waiting() == 0).await;
    leader.gate.add_permits(10);
    until(|| flight.numbers().values()[4] == ("failed", 1)).await;
    assert_eq!(leader.attempts(), 1);
}

#[tokio::test]
async fn a_later_caller_asks_anew_and_other_questions_do_not_wait() {
    let flight = Flight::new(WIDE);
    let (slow, quick) = (Leader::new(&[What::Answer]), Leader::new(&[What::Answer]));
    let waiting = call(&flight, "slow", &slow);
    until(|| slow.attempts() == 1).await;
    quick.gate.add_permits(2);
    for attempt in 0..2 {
        let answered = answers(vec![call(&flight, "quick", &quick)]).await;
        assert!(matches!(answered[0].as_deref(), Ok(found) if *found == attempt), "{answered:?}");
    }
    assert_eq!((quick.attempts(), slow.attempts(), waiting.is_finished()), (2, 1, false));
    slow.gate.add_permits(1);
    assert!(matches!(answers(vec![waiting]).await[0].as_deref(), Ok(0)));
}

#[tokio::test]
async fn questions_and_callers_have_their_bounds() {
    let flight = Flight::new(FlightBounds { questions_max: 2, waiting_max: 3 });
    let leader = Leader::new(&[What::Answer]);
    let mut callers = vec![call(&flight, "a", &leader), call(&flight, "b", &leader)];
    until(|| leader.attempts() == 2).await;
    let third = answers(vec![call(&flight, "c", &leader)]).await;
    assert!(matches!(third[0], Err(FlightError::TooManyQuestions)), "{third:?}");
    callers.push(call(&flight, "a", &leader));
    until(|| flight.numbers().waiting() == 3).await;
    let fourth = answers(vec![call(&flight, "a", &leader)]).await;
    assert!(matches!(fourth[0], Err(FlightError::TooManyWaiting)), "{fourth:?}");
    leader.gate.add_permits(2);
    assert!(answers(callers).await.iter().all(Result::is_ok));
    assert_eq!(flight.numbers().values()[5], ("refused", 2));
    // What is over makes room.
    leader.gate.add_permits(1);
    assert!(answers(vec![call(&flight, "c", &leader)]).await[0].is_ok());
}
