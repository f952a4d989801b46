//! Spans around what producers and workers do: of OpenTelemetry, or none.

#[cfg(not(feature = "opentelemetry"))]
mod none;
#[cfg(feature = "opentelemetry")]
mod spans;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use self::none::{Enqueueing, Processing};
#[cfg(feature = "opentelemetry")]
pub(crate) use self::spans::{Enqueueing, Processing};
