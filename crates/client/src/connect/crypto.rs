//! The cryptography of rustls.

/// Makes ring the process's provider if nobody has chosen one. Where a program has two of them
/// compiled in, rustls would panic instead of choosing.
pub(super) fn ensure_provider() {
    #[cfg(feature = "tls-rustls")]
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may just have been first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
