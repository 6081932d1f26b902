//! Which crate may depend on which, and what must be absent from a crate's whole tree.
//!
//! Never: a crate of the workspace that the table does not name.

use crate::{
    process,
    workspace::{Package, Workspace},
};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;

/// Crates of the workspace, each with those that it may depend on, for tests and builds too.
const ARROWS: [(&str, &[&str]); 9] = [
    ("sprag-market", &[]),
    ("sprag-wire", &["sprag-market"]),
    ("sprag-dataflow", &["sprag-market"]),
    // The emulator stands in for a service, so it knows nothing of ours.
    ("sprag-pubsub-emulator", &[]),
    ("sprag-connectors", &["sprag-market", "sprag-pubsub-emulator"]),
    ("sprag-receiver", &["sprag-market", "sprag-wire"]),
    (
        "sprag-server",
        &[
            "sprag-market",
            "sprag-wire",
            "sprag-receiver",
            "sprag-dataflow",
            "sprag-connectors",
            "sprag-pubsub-emulator",
        ],
    ),
    (
        "sprag-tests",
        &[
            "sprag-market",
            "sprag-wire",
            "sprag-receiver",
            "sprag-dataflow",
            "sprag-connectors",
            "sprag-server",
            "sprag-pubsub-emulator",
        ],
    ),
    ("xtask", &[]),
];

/// Crates and what nothing below them may bring in: no sockets in a core, no computation in an edge.
const ABSENT: [(&str, &[&str]); 5] = [
    ("sprag-market", &["tokio", "timely"]),
    ("sprag-wire", &["tokio", "timely"]),
    ("sprag-dataflow", &["tokio"]),
    ("sprag-connectors", &["timely"]),
    ("sprag-receiver", &["timely"]),
];

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong: Vec<String> = workspace.packages().iter().flat_map(wrong_arrows).collect();
    for (package, banned) in ABSENT {
        let tree = ["tree", "--locked", "-p", package, "-e", "normal,build", "--prefix", "none", "--format", "{p}"];
        let text = process::output(&mut workspace.cargo(&tree))?;
        wrong.extend(present(&text, banned).map(|name| format!("{package} brings in {name}")));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn wrong_arrows(package: &Package) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
        return vec![format!("{} is not in the table of arrows", package.name)];
    };
    let inside = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    let names: BTreeSet<_> = inside.map(|dependency| dependency.name.as_str()).collect();
    let wrong = names.into_iter().filter(|name| !allowed.contains(name));
    wrong.map(|name| format!("{} depends on {name}", package.name)).collect()
}

/// The banned names that open a line of `cargo tree`.
fn present<'a>(tree: &'a str, banned: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let names: BTreeSet<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    banned.iter().copied().filter(move |name| names.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, inside: &str) -> Package {
        let dependency = |name: &str, path: Option<&str>| Dependency { name: name.into(), path: path.map(Into::into) };
        Package { name: name.into(), dependencies: vec![dependency("tokio", None), dependency(inside, Some("x"))] }
    }

    #[test]
    fn an_arrow_the_wrong_way_is_named() {
        assert!(wrong_arrows(&package("sprag-wire", "sprag-market")).is_empty());
        assert_eq!(wrong_arrows(&package("sprag-market", "sprag-wire")), ["sprag-market depends on sprag-wire"]);
        assert_eq!(wrong_arrows(&package("sprag-new", "sprag-market")), ["sprag-new is not in the table of arrows"]);
    }

    #[test]
    fn a_banned_crate_is_found_by_its_whole_name() {
        let tree = "sprag-wire v0.1.0\ntokio-util v0.7.0\ntimely v0.32.0 (*)\n";
        assert_eq!(present(tree, &["tokio", "timely"]).collect::<Vec<_>>(), ["timely"]);
    }
}
