//! Commands in any order, on a queue, its replica and the model of the contract.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::world::step::{settings, steps};
use crate::world::World;

/// Longer sequences find nothing that several short ones do not.
const MOST_STEPS: usize = 60;

/// Runs the steps that `data` names; after each of them all three must tell the same. Four bytes name a
/// step, so that a fuzzer that moves, repeats and leaves out bytes does that to steps.
pub fn run(data: &[u8]) {
    let mut names = data.as_chunks::<4>().0.iter();
    let Some(first) = names.next() else { return };
    let steps: Vec<_> = names
        .take(MOST_STEPS)
        .flat_map(|name| chosen(*name, steps(2)))
        .collect();
    World::new(chosen(*first, settings())).run(&steps);
}

/// What `strategy` chooses by `name`.
fn chosen<T>(name: [u8; 4], strategy: impl Strategy<Value = T>) -> T {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&name);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = strategy.new_tree(&mut runner);
    tree.expect("a strategy that rejects nothing").current()
}
