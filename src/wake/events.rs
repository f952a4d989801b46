//! What happens to the server and to keys behind the commands' backs.

use std::ffi::CStr;

use super::{met, state};
use crate::authority::{self, Right};
use crate::clock;
use crate::consumers;
use crate::datatype::QUEUE_TYPE;
use crate::redis::{
    subscribe, subscribe_keys, Ctx, Event, EventHandler, EventKind, KeyEventHandler, KeyEvents,
    KeyName, LoadError, ReadKey,
};
use crate::rest;
use crate::waiting;

struct Behind;

impl EventHandler for Behind {
    fn on_event(ctx: &Ctx, event: Event) {
        match event {
            Event::PrimaryLink => clock::forget_primary(),
            Event::RoleChanged(new) => {
                clock::forget_primary();
                authority::changed(ctx, Some(new));
                begin_anew(ctx);
            }
            Event::Loading(_) | Event::AsyncLoading(_) => {
                authority::changed(ctx, None);
                begin_anew(ctx);
            }
            Event::SwapDb(first, second) => {
                let mut state = state();
                state.databases.swap(first, second);
                state.rounds.keys_have_moved();
                rest::swap(first, second);
                waiting::swapped(first, second);
            }
            Event::Cron => {
                rest::tick(ctx);
                consumers::tick(ctx);
                waiting::tick(ctx);
                if authority::of_time(ctx) == Right::Decide {
                    let mut state = state();
                    state.check_settings();
                    state.check_timer(ctx, clock::read(ctx).steady_ms());
                }
            }
            _ => {}
        }
    }
}

/// The server has begun to decide, or has stopped.
fn begin_anew(ctx: &Ctx) {
    let mut state = state();
    if authority::decides() {
        state.rounds.begin_anew();
        state.set_timer(ctx, clock::read(ctx).steady_ms(), 0);
    } else {
        state.forget_all(ctx, 0);
    }
}

impl KeyEventHandler for Behind {
    fn on_key_event(ctx: &Ctx, event: &CStr, key: KeyName<'_>) {
        let appears = [c"restore", c"copy_to", c"rename_to", c"move_to"];
        if !authority::decides() || !appears.contains(&event) {
            return;
        }
        // The server's own string may lie on its stack, where it cannot be kept.
        ctx.with_key_name(key.bytes(), |name| {
            if matches!(ReadKey::peek(ctx, &QUEUE_TYPE, name), Ok(Some(_))) {
                met(ctx, name);
            }
        });
    }
}

/// Subscribes to what the looks depend on.
pub fn register(ctx: &Ctx) -> Result<(), LoadError> {
    authority::changed(ctx, None);
    subscribe::<Behind>(
        ctx,
        &[
            EventKind::RoleChanged,
            EventKind::PrimaryLink,
            EventKind::Loading,
            EventKind::AsyncLoading,
            EventKind::SwapDb,
            EventKind::Cron,
        ],
    );
    subscribe_keys::<Behind>(ctx, KeyEvents::GENERIC)
}
