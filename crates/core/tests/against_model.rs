//! The queue does what the contract says, on any sequence of steps: as a primary, as a replica,
//! after every reload and every failover.

mod model;
mod world;

use proptest::prelude::*;

use world::step::{settings, steps};
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_give_what_the_contract_says(settings in settings(), steps in steps(100)) {
        World::new(settings).run(&steps);
    }
}
