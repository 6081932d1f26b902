//! `sprag pubsub-emulator`.
//!
//! Never: anything of the pipeline; it is the other side.

use super::{Failure, runtime, start_log};
use crate::exit::Exit;
use clap::{Args, value_parser};
use pubsub_emulator::{Emulator, EmulatorError, Options};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::signal::unix::{SignalKind, signal};

/// What the options cannot say.
const AFTER_HELP: &str = r#"The protocol is the service's own, gRPC and REST on one port, so every official library works with it; nothing outlives
the process. Messages that nobody has acknowledged are kept up to --backlog-mib; beyond, publishing is refused with
RESOURCE_EXHAUSTED.

For tests: GET /faults tells how often each fault fired, GET /backlog what is ready and leased; POST one of
  /fault/fail_next        {"method":"Publish","code":"UNAVAILABLE","times":1}   or any other method and code
  /fault/reset_streams    {}
  /fault/hold_streams     {"on":true}
  /fault/silence_streams  {}   the streams that are open now, for good
  /fault/duplicate_next   {"times":3}
  /fault/shuffle          {"seed":1}   or {"seed":null} for the order of publishing
  /fault/stall_acks       {"on":true}
  /fault/corrupt_next     {"times":3}
  /fault/outage           {"for_ms":1000}"#;

#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct PubsubEmulatorArgs {
    /// Address to listen on, port 0 for any free one; beyond loopback, whoever reaches it can set faults.
    #[arg(long, value_name = "HOST:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 8085)))]
    listen: SocketAddr,
    /// Make this topic; a short name is one of --project. May be repeated.
    #[arg(long, value_name = "NAME")]
    topic: Vec<String>,
    /// Make this subscription of the topic that is at the same place among the topics. May be repeated.
    #[arg(long, value_name = "NAME", requires = "topic")]
    subscription: Vec<String>,
    /// Project of short names.
    #[arg(long, value_name = "NAME", default_value = "sprag")]
    project: String,
    /// MiB of messages that nobody has acknowledged, over all subscriptions.
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = value_parser!(u32).range(1..))]
    backlog_mib: u32,
}

impl PubsubEmulatorArgs {
    /// The whole name of a topic or subscription.
    fn whole(&self, kind: &str, name: &str) -> String {
        if name.contains('/') { name.to_owned() } else { format!("projects/{}/{kind}/{name}", self.project) }
    }

    /// Makes what is asked for; a line for each.
    fn make(&self, emulator: &Emulator) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        for topic in &self.topic {
            let topic = self.whole("topics", topic);
            emulator.create_topic(&topic).map_err(not_started)?;
            lines.push(format!("topic {topic}"));
        }
        for (at, subscription) in self.subscription.iter().enumerate() {
            let Some(topic) = self.topic.get(at) else {
                let error = anyhow::anyhow!("--subscription {subscription}: there is no topic at its place");
                return Err(Failure::new(Exit::Usage, error));
            };
            let (subscription, topic) = (self.whole("subscriptions", subscription), self.whole("topics", topic));
            emulator.create_subscription(&subscription, &topic).map_err(not_started)?;
            lines.push(format!("subscription {subscription} of {topic}"));
        }
        Ok(lines)
    }
}

fn not_started(error: EmulatorError) -> Failure {
    let exit = match &error {
        EmulatorError::Listen { .. } => Exit::Network,
        EmulatorError::Refused(_) => Exit::Usage,
        EmulatorError::Threads(_) | EmulatorError::Gone => Exit::Internal,
    };
    Failure::new(exit, error)
}

pub(super) fn pubsub_emulator(args: &PubsubEmulatorArgs) -> Result<(), Failure> {
    start_log(&crate::config::Log::default())?;
    let signals = |kind| signal(kind).map_err(|error| Failure::new(Exit::Internal, error));
    let options = Options { backlog_bytes_max: u64::from(args.backlog_mib) << 20, ..Options::new(args.listen) };
    runtime()?.block_on(async {
        let (mut interrupt, mut terminate) = (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
        let emulator = Emulator::start_with(options).map_err(not_started)?;
        let lines = args.make(&emulator)?;
        println!("sprag pubsub-emulator: listening on {}", emulator.endpoint());
        println!("  export PUBSUB_EMULATOR_HOST={}", emulator.address());
        for line in lines {
            println!("  {line}");
        }
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: PubsubEmulatorArgs,
    }

    fn made(line: &[&str]) -> Result<Vec<String>, Failure> {
        let listen = ["pubsub-emulator", "--listen", "127.0.0.1:0"];
        let args = Alone::parse_from(listen.iter().chain(line)).args;
        let emulator = Emulator::start(args.listen).map_err(not_started)?;
        args.make(&emulator)
    }

    #[test]
    fn topics_and_subscriptions_pair_by_place() {
        let line = [
            "--topic",
            "one",
            "--subscription",
            "first",
            "--topic",
            "projects/p/topics/two",
            "--subscription",
            "second",
        ];
        let lines = made(&line).unwrap();
        let expected = [
            "topic projects/sprag/topics/one",
            "topic projects/p/topics/two",
            "subscription projects/sprag/subscriptions/first of projects/sprag/topics/one",
            "subscription projects/sprag/subscriptions/second of projects/p/topics/two",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_cannot_be_made_is_a_matter_of_usage() {
        let line = ["--topic", "one", "--subscription", "first", "--subscription", "second"];
        assert_eq!(made(&line).unwrap_err().exit, Exit::Usage);
        assert_eq!(made(&["--topic", "one", "--topic", "one"]).unwrap_err().exit, Exit::Usage);
    }
}
