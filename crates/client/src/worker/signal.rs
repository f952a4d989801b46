//! Being told to go.

use std::{future::Future, io};

/// A future that ends when the process gets SIGTERM or SIGINT (Ctrl-C); elsewhere than on Unix,
/// at Ctrl-C.
///
/// From the call on, these signals no longer end the process by themselves.
#[cfg(unix)]
#[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{signal, SignalKind};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A future that ends at Ctrl-C.
#[cfg(not(unix))]
#[cfg_attr(docsrs, doc(cfg(feature = "signals")))]
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
