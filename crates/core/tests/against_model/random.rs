//! Any sequence of steps.

use proptest::prelude::*;

use crate::world::step::{settings, steps};
use crate::world::World;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_give_what_the_contract_says(settings in settings(), steps in steps(100)) {
        World::new(settings).run(&steps);
    }
}
