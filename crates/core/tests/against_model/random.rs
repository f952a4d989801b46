//! Any sequence of steps.

use proptest::prelude::*;

use crate::world::step::{settings, steps, steps_on_many};
use crate::world::World;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_give_what_the_contract_says(settings in settings(), steps in steps(100)) {
        World::new(settings).run(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_steps_on_many_messages_do_too(settings in settings(), steps in steps_on_many(80)) {
        World::new(settings).run(&steps);
    }
}
