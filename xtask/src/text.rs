//! The rules for the text of files: length, words that do not belong, opening lines, scripts that parse.
//!
//! Never: a file that git would not keep, or bytes that are no text.

use crate::process;
use anyhow::{Context, Result, ensure};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// A Rust file above this asks to be split; above [`LINES_MAX`] it must be.
const LINES_WARN: usize = 400;
/// Most lines of a Rust file.
const LINES_MAX: usize = 800;
/// Larger files are data.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Folders that hold no text of the project.
const SKIPPED: [&str; 5] = [".git", "target", "node_modules", "data", "dist"];
/// Endings of the files that are read for words.
const READ: [&str; 13] = ["rs", "ts", "js", "mjs", "css", "html", "json", "md", "py", "sh", "sql", "toml", "yaml"];

/// Words that do not belong, in halves so that this file passes its own rule, and what is wrong with them.
const WORDS: [(&str, &str, &str); 11] = [
    ("TO", "DO", "is work left undone"),
    ("FIX", "ME", "is work left undone"),
    ("registry.", "npmjs.org", "is a registry's host; npm has `omit-lockfile-registry-resolved`"),
    ("\"resolved\": ", "\"http", "is a registry's host; npm has `omit-lockfile-registry-resolved`"),
    ("index.", "crates.io", "is a registry's host"),
    ("static.", "crates.io", "is a registry's host"),
    ("pypi.", "org/", "is a registry's host"),
    ("files.", "pythonhosted.org", "is a registry's host"),
    ("/ho", "me/", "is a path of one machine"),
    ("/Us", "ers/", "is a path of one machine"),
    ("/ro", "ot/", "is a path of one machine"),
];
/// Folders that a document may well name, whoever has a checkout there.
const CONVENTIONAL: [&str; 12] =
    ["/", "/app", "/build", "/builds", "/data", "/mnt", "/opt", "/src", "/srv", "/tmp", "/usr", "/var"];

pub(crate) fn check(root: &Path) -> Result<()> {
    let mut problems = Vec::new();
    let paths = machine_paths(root);
    for file in files(root)? {
        let Some(text) = text_of(&file)? else { continue };
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        problems.extend(words(&text, &paths).into_iter().map(|problem| format!("{name}:{problem}")));
        if file.extension().is_some_and(|ending| ending == "rs") {
            problems.extend(rust_problem(&text).map(|problem| format!("{name}: {problem}")));
            if text.lines().count() > LINES_WARN {
                println!("{name}: {} lines, split it before {LINES_MAX}", text.lines().count());
            }
        }
        if text.starts_with("#!") && text.lines().next().is_some_and(|line| line.ends_with("bash")) {
            let parsed = process::output(Command::new("bash").arg("-n").arg(&file));
            problems.extend(parsed.err().map(|error| format!("{name}: {error:#}")));
        }
    }
    ensure!(problems.is_empty(), "\n{}", problems.join("\n"));
    Ok(())
}

/// Whether any library's documentation holds an example that is compiled.
pub(crate) fn has_doc_tests(root: &Path) -> Result<bool> {
    for file in files(root)? {
        let in_library =
            file.components().any(|part| part.as_os_str() == "src") && !file.starts_with(root.join("xtask"));
        if in_library && text_of(&file)?.is_some_and(|text| opens_doc_test(&text)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn opens_doc_test(text: &str) -> bool {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = comments.filter_map(|comment| comment.trim_start().strip_prefix("```"));
    // Every second fence closes one.
    fences.step_by(2).any(|kind| !["text", "ignore", "json", "toml", "sql", "sh"].contains(&kind.trim()))
}

/// What the beginning and the length of a Rust file get wrong.
fn rust_problem(text: &str) -> Option<String> {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        return Some(format!("{lines} lines, {LINES_MAX} at most"));
    }
    let opening: Vec<_> = text.lines().take_while(|line| line.starts_with("//!")).collect();
    let says_never = opening.iter().any(|line| line.starts_with("//! Never: "));
    (!says_never).then(|| "opens without `//!` what it owns and a line `//! Never: …`".to_owned())
}

/// Every line with a word that does not belong, as `line: "word" why`.
fn words(text: &str, paths: &[String]) -> Vec<String> {
    let fixed = WORDS.iter().map(|(one, two, why)| (format!("{one}{two}"), *why));
    let local = paths.iter().map(|path| (path.clone(), "is a path of this machine"));
    let banned: Vec<_> = fixed.chain(local).collect();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (word, why) in &banned {
            if stands_alone(line, word) {
                found.push(format!("{}: {word:?} {why}", index + 1));
            }
        }
    }
    found
}

/// Whether the word is there and does not continue another word or path.
fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|start| start.chars().next_back());
        !before.is_some_and(|before| before.is_alphanumeric() || "_.-".contains(before))
    })
}

/// The checkout's own path and its parent's, unless they are places that anyone may have.
fn machine_paths(root: &Path) -> Vec<String> {
    let places = [Some(root), root.parent()].into_iter().flatten();
    let own = places.filter(|place| !CONVENTIONAL.iter().any(|usual| Path::new(usual) == *place));
    own.map(|place| format!("{}/", place.display())).collect()
}

fn text_of(file: &Path) -> Result<Option<String>> {
    let is_script = file.parent().and_then(Path::file_name).is_some_and(|folder| folder == ".ci");
    let is_read = file.extension().is_some_and(|ending| READ.iter().any(|read| ending == *read));
    let size = fs::metadata(file).with_context(|| file.display().to_string())?.len();
    if !(is_script || is_read) || size > FILE_BYTES_MAX {
        return Ok(None);
    }
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

/// Every file below the root, folders of others left out, in the order of their names.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undone_work_and_machine_paths_are_named_with_their_line() {
        let text = format!("fine\n// {}{} later\nsee {}{}me/notes\n", "TO", "DO", "/ho", "me/");
        let found = words(&text, &["/some/checkout/".to_owned()]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("2: ") && found[1].starts_with("3: "), "{found:?}");
        assert_eq!(words("let path = \"/some/checkout/target\";", &["/some/checkout/".to_owned()]).len(), 1);
        assert!(words("server/some/checkout/x", &["/some/checkout/".to_owned()]).is_empty());
    }

    #[test]
    fn rust_files_open_with_what_they_own_and_stay_short() {
        assert_eq!(rust_problem("//! Owns this.\n//!\n//! Never: that.\n"), None);
        assert!(rust_problem("//! Owns this.\n").is_some());
        let long = format!("//! Never: that.\n{}", "\n".repeat(LINES_MAX));
        assert!(rust_problem(&long).is_some_and(|problem| problem.starts_with("801 lines")));
    }

    #[test]
    fn only_examples_that_compile_count_as_doc_tests() {
        assert!(opens_doc_test("/// ```\n/// let a = 1;\n/// ```\n"));
        assert!(opens_doc_test("//! ```should_panic\n"));
        assert!(!opens_doc_test("/// ```text\n/// a\n/// ```\n"));
        assert!(!opens_doc_test("let fence = \"```\";\n"));
    }

    #[test]
    fn folders_of_others_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["src", "target", "node_modules/x", ".ci"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("a.rs"), "x").unwrap();
        }
        let names: Vec<_> =
            files(root.path()).unwrap().iter().map(|file| file.strip_prefix(root.path()).unwrap().to_owned()).collect();
        assert_eq!(names, [PathBuf::from(".ci/a.rs"), PathBuf::from("src/a.rs")]);
    }
}
