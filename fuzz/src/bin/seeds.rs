//! Writes the first inputs of each target into `corpus/`: `cargo run --bin seeds`.

use std::fs;
use std::path::Path;

use redis_mq_fuzz::pair::{snapshot, Pair};
use redis_mq_fuzz::{effects, pieces};

const LINES: &str = include_str!("../../arguments.txt");

fn main() {
    let every_state = Pair::with_every_state();
    let mut older = Pair::with_every_state();
    older.live_on();
    for (name, queue) in [("every-state", &every_state.queue), ("older", &older.queue)] {
        let chunks = snapshot(queue);
        write(
            "snapshot",
            name,
            &pieces::join(chunks.iter().map(Vec::as_slice)),
        );
    }

    let sample = effects::sample();
    write(
        "effects",
        "life",
        &pieces::join(sample.iter().map(Vec::as_slice)),
    );
    for (number, effects) in sample.iter().enumerate() {
        write(
            "effects",
            &format!("step-{number}"),
            &pieces::join([&effects[..]]),
        );
    }
    let chunks = snapshot(&every_state.queue);
    write(
        "effects",
        "chunks",
        &pieces::join(chunks.iter().map(Vec::as_slice)),
    );

    for (number, line) in LINES.lines().enumerate() {
        write("arguments", &format!("line-{number:02}"), line.as_bytes());
    }

    // Any bytes choose steps; these have been drawn from a simple generator.
    let mut random = 1u64;
    for number in 0..8 {
        let mut bytes = Vec::new();
        for _ in 0..30 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            bytes.extend_from_slice(&random.rotate_left(29).to_le_bytes());
        }
        write("operations", &format!("random-{number}"), &bytes);
    }
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&folder).expect("a folder for the corpus");
    fs::write(folder.join(name), bytes).expect("a file of the corpus");
}
