//! The inputs that fuzzing has kept, read again by the fuzz target's own function.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/arguments.rs"]
mod arguments;

#[test]
fn kept_command_lines_are_refused_or_within_the_bounds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/arguments");
    let mut lines = 0;
    for entry in fs::read_dir(folder).unwrap() {
        arguments::run(&fs::read(entry.unwrap().path()).unwrap());
        lines += 1;
    }
    assert!(lines > 0);
}
