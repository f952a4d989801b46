//! Every shape of a message's allocation gives back what was put in.

use super::*;

const MADE: [u8; 16] = [
    0x01, 0x8B, 0xCF, 0xE5, 0x68, 0x00, 0x70, 0, 0x80, 1, 2, 3, 4, 5, 6, 7,
];

const READY_AT_ONCE: State = State::Ready {
    since: Timestamp::ZERO,
    token: None,
};

fn keys() -> [Key<'static>; 5] {
    [
        Key::Bytes(b"a"),
        Key::Bytes(&[0xFF; 512]),
        // As long as a UUID's 16 bytes, and as its text.
        Key::Bytes(&[7; 16]),
        Key::Bytes(&[b'f'; 36]),
        Key::Uuid(MADE),
    ]
}

fn enqueued() -> [Timestamp; 4] {
    let of_the_id = Timestamp::from_millis(uuid_millis(&MADE));
    let later = Timestamp::from_millis(of_the_id.millis() + 1);
    [of_the_id, later, Timestamp::ZERO, Timestamp::MAX]
}

fn limits() -> [Limits; 4] {
    let limits = |attempts, lock| Limits { attempts, lock };
    [
        Limits::default(),
        limits(1, Span::ZERO),
        limits(0, Span::from_millis(1)),
        limits(u32::MAX, Span::MAX),
    ]
}

const LONG: &[u8] = &[b'h'; 4096];

fn owns() -> impl Iterator<Item = Own<'static>> {
    let of = |limits| {
        let numbers = [
            (None, None, None, None, Timestamp::ZERO),
            (None, Some(7), Some(0), None, Timestamp::MAX),
            (
                Some(Span::ZERO),
                None,
                Some(u32::MAX - 1),
                Some(1),
                Timestamp::ZERO,
            ),
            (
                Some(Span::MAX),
                None,
                None,
                Some(u32::MAX),
                Timestamp::from_millis(1),
            ),
        ];
        let of = move |(retain, timer, group, batch, scheduled)| {
            [b"", b"h" as &[u8], LONG].map(|headers| Own {
                limits,
                retain,
                timer,
                group,
                batch,
                scheduled,
                headers,
            })
        };
        numbers.into_iter().flat_map(of)
    };
    limits().into_iter().flat_map(of)
}

fn states() -> [State; 14] {
    let token = Some(Token::new(TOKEN_MASK));
    let at = Timestamp::MAX;
    let dead = |token, cause| State::Dead {
        token,
        cause,
        died: at,
    };
    [
        READY_AT_ONCE,
        State::Ready {
            since: at,
            token: None,
        },
        State::Ready { since: at, token },
        State::Delayed { due: at },
        State::Locked {
            until: at,
            token: Token::new(1),
        },
        State::Locked {
            until: Timestamp::from_millis(1),
            token: Token::new(TOKEN_MASK),
        },
        State::Done { until: at },
        State::Waiting,
        dead(None, Cause::Failed),
        dead(token, Cause::Failed),
        dead(None, Cause::NoAttemptsLeft),
        dead(token, Cause::NoAttemptsLeft),
        dead(None, Cause::LastLockExpired),
        dead(token, Cause::LastLockExpired),
    ]
}

fn priorities() -> impl Iterator<Item = Priority> {
    (0..Priority::LEVELS as u8).filter_map(Priority::new)
}

/// What a message must give back.
#[derive(Clone, Copy)]
struct Expected<'a> {
    key: Key<'a>,
    payload: &'a [u8],
    own: Own<'a>,
    priority: Priority,
    enqueued: Timestamp,
    state: State,
    rare: Option<u32>,
    attempts: u32,
}

fn assert_holds(message: &Message, expected: &Expected<'_>) {
    assert_eq!(message.key(), expected.key);
    assert!(message.has_key(&expected.key));
    assert_eq!(message.id().bytes(), IdText::new(expected.key).bytes());
    assert_eq!(message.payload(), expected.payload);
    assert_eq!(message.own(), expected.own);
    assert_eq!(message.limits(), expected.own.limits);
    assert_eq!(message.headers(), expected.own.headers);
    assert_eq!(message.timer(), expected.own.timer);
    assert_eq!(message.batch(), expected.own.batch);
    assert_eq!(message.priority(), expected.priority);
    assert_eq!(message.enqueued(), expected.enqueued);
    assert_eq!(message.state(), expected.state);
    assert_eq!(message.rare(), expected.rare);
    assert_eq!(message.attempts, expected.attempts);
    let due = match expected.state {
        State::Delayed { due: at } | State::Done { until: at } => at,
        State::Locked { until, .. } => until,
        State::Ready { .. } | State::Dead { .. } | State::Waiting => {
            assert!(!message.is_scheduled());
            return;
        }
    };
    assert_eq!(message.due(), due);
    assert!(message.is_scheduled());
}

fn for_each_shape(mut test: impl FnMut(Expected<'_>)) {
    for key in keys() {
        for enqueued in enqueued() {
            for own in owns() {
                for payload in [b"" as &[u8], b"p", &[0; 300]] {
                    test(Expected {
                        key,
                        payload,
                        own,
                        priority: Priority::default(),
                        enqueued,
                        state: READY_AT_ONCE,
                        rare: None,
                        attempts: 0,
                    });
                }
            }
        }
    }
}

fn message(shape: &Expected<'_>) -> Message {
    let Expected {
        key,
        payload,
        own,
        priority,
        enqueued,
        ..
    } = *shape;
    Message::new(key, 0, payload, &own, priority, enqueued)
}

#[test]
fn every_shape_gives_back_what_was_put_in() {
    for_each_shape(|shape| {
        for priority in priorities() {
            let shape = Expected { priority, ..shape };
            assert_holds(&message(&shape), &shape);
        }
    });
}

#[test]
fn states_and_rare_parts_leave_the_rest_alone() {
    for_each_shape(|shape| {
        let mut message = message(&shape);
        for (at, state) in states().into_iter().enumerate() {
            let rare = (at % 3 != 0).then_some(at as u32 * 1000);
            message.set_state(state);
            message.set_rare(rare);
            let expected = Expected {
                state,
                rare,
                ..shape
            };
            assert_holds(&message, &expected);
        }
    });
}

#[test]
fn new_content_keeps_id_state_attempts_and_rare_part() {
    for_each_shape(|before| {
        for state in states() {
            let rare = Some(9);
            let mut message = message(&before);
            message.set_state(state);
            message.set_rare(rare);
            message.attempts = u32::MAX;
            for (own, enqueued) in owns().zip(enqueued().into_iter().cycle()) {
                let priority = Priority::new(9).unwrap_or_default();
                message.set_content(b"new", &own, priority, enqueued);
                let expected = Expected {
                    key: before.key,
                    payload: b"new",
                    own,
                    priority,
                    enqueued,
                    state,
                    rare,
                    attempts: u32::MAX,
                };
                assert_holds(&message, &expected);
            }
        }
    });
}

#[test]
fn a_timer_comes_and_goes_and_leaves_the_rest_alone() {
    for_each_shape(|shape| {
        let mut message = message(&shape);
        for timer in [Some(3), None, Some(u32::MAX - 1), None] {
            message.set_timer(timer);
            let own = Own { timer, ..shape.own };
            assert_holds(&message, &Expected { own, ..shape });
        }
        assert_eq!(
            message.own(),
            Own {
                timer: None,
                ..shape.own
            }
        );
    });
}

#[test]
fn keys_of_equal_bytes_but_another_form_are_other_keys() {
    let uuid = message(&Expected {
        key: Key::Uuid(MADE),
        payload: b"",
        own: Own::default(),
        priority: Priority::default(),
        enqueued: Timestamp::ZERO,
        state: READY_AT_ONCE,
        rare: None,
        attempts: 0,
    });
    assert!(!uuid.has_key(&Key::Bytes(&MADE)));
    assert!(uuid.has_key(&Key::Uuid(MADE)));
}

#[test]
fn the_default_message_costs_one_allocation_of_id_and_payload() {
    let key = Key::Uuid(MADE);
    let enqueued = Timestamp::from_millis(uuid_millis(&MADE));
    let message = Message::new(
        key,
        0,
        b"12345",
        &Own::default(),
        Priority::default(),
        enqueued,
    );
    assert_eq!(message.body_len(), 16 + 5);
}

#[test]
fn an_option_costs_its_own_bytes_and_the_mask() {
    let length = |own: &Own<'_>| {
        let message = Message::new(
            Key::Bytes(b"a"),
            0,
            b"",
            own,
            Priority::default(),
            Timestamp::ZERO,
        );
        message.body_len() - ENQUEUED - 1
    };
    let limits = |attempts, lock| Limits { attempts, lock };
    for (limits, timer, headers, expected) in [
        (limits(0, Span::ZERO), None, b"" as &[u8], 0),
        (limits(3, Span::ZERO), None, b"", 5),
        (limits(0, Span::MAX), None, b"", 6),
        (limits(3, Span::MAX), None, b"", 10),
        (limits(0, Span::ZERO), Some(1), b"", 5),
        (limits(0, Span::ZERO), None, &[0; 55], 58),
        (limits(3, Span::MAX), Some(u32::MAX), &[0; 55], 71),
    ] {
        let own = |group| Own {
            batch: None,
            limits,
            retain: None,
            timer,
            group,
            scheduled: Timestamp::ZERO,
            headers,
        };
        assert_eq!(length(&own(None)), expected);
        let mask = usize::from(expected == 0);
        assert_eq!(length(&own(Some(7))), expected + 4 + mask);
        let retain = Some(Span::from_millis(1));
        let kept = Own {
            retain,
            ..own(None)
        };
        assert_eq!(length(&kept), expected + 5 + mask);
        let scheduled = Timestamp::MAX;
        let run = Own {
            scheduled,
            ..own(None)
        };
        assert_eq!(length(&run), expected + 6 + mask);
    }
}
