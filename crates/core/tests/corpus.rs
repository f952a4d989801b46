//! Every input that fuzzing has kept goes through the fuzz targets' own functions again: the first ones,
//! those that reach something new, and those that once found a fault.

use std::fs;
use std::path::{Path, PathBuf};

// Shared with the fuzz targets and the model tests, which use all of it.
#[allow(dead_code)]
#[path = "../../../fuzz/src/effects.rs"]
mod effects;
#[allow(dead_code)]
#[path = "against_model/model/mod.rs"]
mod model;
#[path = "../../../fuzz/src/operations.rs"]
mod operations;
#[allow(dead_code)]
#[path = "../../../fuzz/src/pair.rs"]
mod pair;
#[allow(dead_code)]
#[path = "../../../fuzz/src/pieces.rs"]
mod pieces;
#[path = "../../../fuzz/src/snapshot.rs"]
mod snapshot;
#[allow(dead_code)]
#[path = "against_model/world/mod.rs"]
mod world;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the kept inputs")
        .map(|entry| entry.expect("an entry of the folder").path())
        .collect();
    assert!(!files.is_empty());
    for file in files {
        // Shown only if the test fails.
        println!("{}", file.display());
        run(&fs::read(&file).expect("a readable input"));
    }
}

#[test]
fn kept_snapshots_are_refused_or_give_a_sound_queue() {
    replay("snapshot", snapshot::run);
}

#[test]
fn kept_effects_leave_a_sound_queue() {
    replay("effects", effects::run);
}

#[test]
fn kept_operations_give_what_the_contract_says() {
    replay("operations", operations::run);
}

#[test]
fn a_life_by_every_rule_is_the_same_on_a_replica() {
    let mut pair = pair::Pair::with_every_state();
    let counts = pair.queue.counts();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    pair.live_on();
    let sample = effects::sample();
    assert!(sample.len() > 20);
    effects::run(&pieces::join(sample.iter().map(Vec::as_slice)));
}
