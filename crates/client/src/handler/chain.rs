//! Errors and their sources.

use std::{error::Error, fmt, ops::Deref};

use super::answer::LONGEST_REASON;

/// How many sources are followed: an error may be, by mistake, a source of itself.
const DEEPEST: usize = 64;

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source()).take(DEEPEST)
}

/// The texts of an error and of its sources, joined by `: `. A source whose text its parent's
/// contains is left out. What is longer than a reason may be ends soon after that.
pub(crate) fn text(error: &(dyn Error + 'static)) -> String {
    let mut all = String::new();
    let mut parent = String::new();
    for error in chain(error) {
        let text = error.to_string();
        if all.is_empty() {
            all.clone_from(&text);
        } else if !parent.contains(&text) {
            all.push_str(": ");
            all.push_str(&text);
        }
        if all.len() > LONGEST_REASON {
            break;
        }
        parent = text;
    }
    all
}

/// The first error of that type in the chain.
pub(crate) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// An `anyhow::Error` or an `eyre::Report` that shows what it was made of.
///
/// Those two may be returned by handlers as they are, but as an error among others they hide the
/// type of the innermost one. Wrapped in this, a policy can ask for it by
/// [`Failure::downcast_ref`](crate::policy::Failure::downcast_ref):
/// `work(message).await.map_err(Report)`.
pub struct Report<R>(
    /// The report.
    pub R,
);

impl<R: fmt::Display> fmt::Display for Report<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<R: fmt::Debug> fmt::Debug for Report<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<R> Error for Report<R>
where
    R: Deref<Target = dyn Error + Send + Sync> + fmt::Debug + fmt::Display,
{
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BoxError;

    /// Says `text`, and has a source.
    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Context {
        text: &'static str,
        source: BoxError,
    }

    fn over(text: &'static str, source: impl Into<BoxError>) -> Context {
        let source = source.into();
        Context { text, source }
    }

    #[test]
    fn sources_are_told_unless_they_say_nothing_new() {
        assert_eq!(text(&over("a", over("b", "c"))), "a: b: c");
        assert_eq!(text(&over("a: b", over("b", "c"))), "a: b: c");
        assert_eq!(text(&over("sending: down", "down")), "sending: down");
        assert_eq!(text(&over("", "down")), "down");
    }

    #[test]
    fn an_endless_chain_ends() {
        #[derive(Debug, thiserror::Error)]
        #[error("again and again")]
        struct Ring;
        #[derive(Debug)]
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("e")
            }
        }
        impl Error for Endless {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        }
        assert_eq!(text(&Endless), "e");
        assert!(find::<Ring>(&Endless).is_none());
    }

    #[test]
    fn an_error_is_found_by_its_type_wherever_it_is() {
        let error = over("a", over("b", std::io::Error::other("c")));
        assert_eq!(find::<std::io::Error>(&error).unwrap().to_string(), "c");
        assert_eq!(find::<Context>(&error).unwrap().text, "a");
        assert!(find::<fmt::Error>(&error).is_none());
    }

    /// As `anyhow::Error` is: no error itself, but it has one.
    #[derive(Debug)]
    struct Reported(BoxError);

    impl fmt::Display for Reported {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Deref for Reported {
        type Target = dyn Error + Send + Sync;

        fn deref(&self) -> &Self::Target {
            &*self.0
        }
    }

    #[test]
    fn a_report_shows_what_it_was_made_of() {
        let report = Report(Reported(over("a", "b").into()));
        assert_eq!(find::<Context>(&report).unwrap().text, "a");
        assert_eq!(text(&report), "a: b");
    }
}
