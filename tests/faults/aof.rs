//! What a server wrote to its append-only file.

use std::fs;
use std::path::{Path, PathBuf};

use redis_mq_testkit::Server;

/// The command part of the append-only file, wherever this server's version keeps it.
///
/// # Panics
///
/// If there is none.
#[track_caller]
pub fn path(server: &Server) -> PathBuf {
    let single = server.dir().join("appendonly.aof");
    if single.is_file() {
        return single;
    }
    let folder = server.dir().join("appendonlydir");
    let mut parts: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .collect();
    parts.sort_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    parts.pop().expect("the server has an append-only file")
}

/// One command of the file.
pub type Written = Vec<Vec<u8>>;

/// The commands in the file, except `SELECT`, which only says where the next ones go.
#[track_caller]
pub fn commands(file: &Path) -> Vec<Written> {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut all = parse(&bytes);
    all.retain(|command| !command[0].eq_ignore_ascii_case(b"SELECT"));
    all
}

/// Reads commands in the protocol's form.
#[track_caller]
pub fn parse(bytes: &[u8]) -> Vec<Written> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let command = next(&mut rest);
        if !command.is_empty() {
            all.push(command);
        }
    }
    all
}

/// The length of the first command of these bytes; none if there is no more.
pub fn length_of_first(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    while !rest.is_empty() {
        if !next(&mut rest).is_empty() {
            return Some(bytes.len() - rest.len());
        }
    }
    None
}

/// Reads one command, or an annotation, such as the time, which has no words.
#[track_caller]
fn next(rest: &mut &[u8]) -> Written {
    if rest[0] == b'#' {
        line(rest, b'#');
        return Written::new();
    }
    let length = line(rest, b'*');
    let arguments = (0..length).map(|_| {
        let length = line(rest, b'$');
        let (argument, after) = rest.split_at(length);
        *rest = after
            .strip_prefix(b"\r\n")
            .expect("an argument ends with its line");
        argument.to_vec()
    });
    arguments.collect()
}

/// Writes one command in the protocol's form.
pub fn encode<A: AsRef<[u8]>>(command: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        let argument = argument.as_ref();
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The number on the next line, which begins with `mark`; 0 if it has none.
#[track_caller]
fn line(rest: &mut &[u8], mark: u8) -> usize {
    assert_eq!(rest[0], mark, "the file is in the protocol's form");
    let end = rest
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a line has an end");
    let text = String::from_utf8_lossy(&rest[1..end])
        .trim_end()
        .to_string();
    *rest = &rest[end + 1..];
    text.parse().unwrap_or(0)
}
