//! MQ.PEEK: each status as a whole, from both ends and page by page.

use redis_mq_core::{Peek, PeekError, Queue, Status};

use super::ask::fields;
use super::World;
use crate::model::{Fields, Seen};

/// Messages of a page where a status is read page by page.
const PAGE: usize = 3;

impl World {
    pub fn compare_pages(&self, seen: &Seen, queue: &Queue) {
        let next = Peek {
            status: None,
            count: 1000,
            after: None,
            reverse: false,
        };
        assert_eq!(self.page(queue, &next), seen.of(Status::Queued));
        for status in Status::ALL {
            let whole = Peek {
                status: Some(status),
                ..next
            };
            let all = self.page(queue, &whole);
            let mut expected = seen.of(status);
            if matches!(status, Status::Queued | Status::Dead) {
                assert_eq!(ids(&all), ids(&expected), "{status:?}");
                assert_eq!(all, expected);
            } else {
                let mut all = all.clone();
                all.sort_by(|one, other| one.id.cmp(&other.id));
                expected.sort_by(|one, other| one.id.cmp(&other.id));
                assert_eq!(all, expected);
            }
            for reverse in [false, true] {
                let mut whole = all.clone();
                if reverse {
                    whole.reverse();
                }
                self.compare_page_by_page(queue, status, reverse, &whole);
            }
            let peek = Peek {
                after: Some(b"nobody has this id"),
                ..whole
            };
            let error = queue.peek(self.clock(), &peek).map(|page| page.len());
            assert_eq!(error, Err(PeekError::NoSuchMessage));
        }
    }

    fn compare_page_by_page(&self, queue: &Queue, status: Status, reverse: bool, whole: &[Fields]) {
        let mut after: Option<&[u8]> = None;
        for expected in whole.chunks(PAGE).chain([&[][..]]) {
            let peek = Peek {
                status: Some(status),
                count: PAGE,
                after,
                reverse,
            };
            assert_eq!(self.page(queue, &peek), expected, "{status:?} {reverse}");
            after = expected.last().map(|last| &last.id[..]);
        }
    }

    fn page(&self, queue: &Queue, peek: &Peek<'_>) -> Vec<Fields> {
        let page = queue
            .peek(self.clock(), peek)
            .expect("there is such a page");
        page.into_iter().map(fields).collect()
    }
}

fn ids(page: &[Fields]) -> Vec<String> {
    let text = |message: &Fields| String::from_utf8_lossy(&message.id).into_owned();
    page.iter().map(text).collect()
}
