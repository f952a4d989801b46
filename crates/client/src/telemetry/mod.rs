//! Spans around what producers and workers do: of OpenTelemetry, or none.

#[cfg(feature = "opentelemetry")]
mod metrics;
#[cfg(not(feature = "opentelemetry"))]
mod none;
#[cfg(feature = "opentelemetry")]
mod spans;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use self::none::{received, Enqueueing, Processing, Settling};
#[cfg(feature = "opentelemetry")]
pub(crate) use self::spans::{received, Enqueueing, Processing, Settling};
