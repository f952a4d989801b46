//! The fenced blocks of a Markdown page.

use std::fs;

use redis_mq_testkit::{workspace_root, Version};

/// A page, by its path from the root of the repository.
#[derive(Debug)]
pub struct Page {
    pub path: &'static str,
    pub text: String,
}

/// What stands between two fences.
#[derive(Debug)]
pub struct Block {
    /// The line of the opening fence, counted from 1.
    pub line: usize,
    /// The first word behind the fence.
    pub language: String,
    /// The oldest server that the block is for: `from 7.0` behind the language.
    since: Option<(u16, u16)>,
    pub text: String,
}

impl Page {
    /// Reads a page.
    pub fn read(path: &'static str) -> Self {
        let text = fs::read_to_string(workspace_root().join(path));
        Self {
            path,
            text: text.unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    /// All its blocks.
    pub fn blocks(&self) -> Vec<Block> {
        blocks(&self.text)
    }

    /// Its blocks in that language, at least one.
    pub fn blocks_in(&self, language: &str) -> Vec<Block> {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.language == language);
        assert!(!blocks.is_empty(), "{}: no block of {language}", self.path);
        blocks
    }

    /// The text without its blocks: one empty line for each of theirs.
    pub fn prose(&self) -> String {
        let mut inside = false;
        let keep = |line: &str| {
            let fence = line.starts_with(FENCE);
            let is_prose = !inside && !fence;
            inside ^= fence;
            format!("{}\n", if is_prose { line } else { "" })
        };
        self.text.lines().map(keep).collect()
    }
}

impl Block {
    /// Whether this server offers what the block needs.
    pub fn is_for(&self, server: Version) -> bool {
        self.since
            .is_none_or(|(major, minor)| server.offers_redis(major, minor))
    }
}

const FENCE: &str = "```";

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix(FENCE) else {
            continue;
        };
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default().to_string();
        let since = match (words.next(), words.next()) {
            (None, _) => None,
            (Some("from"), Some(version)) => Some(number(version)),
            other => panic!("line {}: {other:?} behind the language", at + 1),
        };
        let text = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != FENCE)
            .flat_map(|line| [line, "\n"])
            .collect();
        blocks.push(Block {
            line: at + 1,
            language,
            since,
            text,
        });
    }
    blocks
}

fn number(version: &str) -> (u16, u16) {
    let parts = version.split_once('.');
    parts
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .unwrap_or_else(|| panic!("{version} is no version"))
}

#[test]
fn a_page_is_cut_into_its_blocks() {
    let found = blocks("a\n```sh\nb\n\nc\n```\nd\n```console from 7.0\n```\n");
    let [first, second] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((first.line, &*first.text), (2, "b\n\nc\n"));
    assert_eq!((&*first.language, first.since), ("sh", None));
    assert_eq!((&*second.text, second.since), ("", Some((7, 0))));
}
