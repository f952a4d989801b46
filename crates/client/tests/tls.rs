//! TLS: the right certificates are accepted, all others refused, and a worker goes on through all
//! of it. In front of the server is a proxy that speaks TLS, since not every server does.

#![cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]

mod common;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use common::{all_done, eventually, queue, quick_from, MS, S};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use redis_mq_client::{connect, redis, Event, Message, Queue};
use redis_mq_testkit::Server;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    rustls::{self, pki_types::PrivateKeyDer},
    TlsAcceptor,
};

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both as PEM.
struct Certificate {
    chain: String,
    key: KeyPair,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Certificate {
            chain: params.signed_by(&key, &self.0).unwrap().pem(),
            key,
        }
    }

    /// What a server presents, and whether it wants to see a certificate of this authority.
    fn serving(&self, certificate: &Certificate, mutual: bool) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = if mutual {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(self.0.der().clone()).unwrap();
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                Arc::new(roots),
                provider,
            );
            config.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            config.with_no_client_auth()
        };
        let chain = pem_to_der(&certificate.chain);
        let key = PrivateKeyDer::try_from(certificate.key.serialize_der()).unwrap();
        Arc::new(config.with_single_cert(vec![chain], key).unwrap())
    }
}

fn pem_to_der(pem: &str) -> rustls::pki_types::CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject;
    rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// How the proxy greets its clients; `None` hangs up in the middle of the handshake.
type Greeting = Arc<Mutex<Option<Arc<rustls::ServerConfig>>>>;

/// Speaks TLS with clients and hands on to the server.
async fn proxy(server: SocketAddr, greeting: &Greeting) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeting = Arc::clone(greeting);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let config = greeting.lock().unwrap().clone();
            tokio::spawn(async move {
                let Some(config) = config else {
                    // A part of the client's greeting is read, so that it sees an end.
                    client.readable().await.ok();
                    let _ = client.try_read(&mut [0; 64]);
                    return;
                };
                let Ok(mut client) = TlsAcceptor::from(config).accept(client).await else {
                    return;
                };
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    format!("rediss://localhost:{port}/")
}

fn client(url: &str, trusted: &Authority, own: Option<&Certificate>) -> redis::Client {
    let certificates = redis::TlsCertificates {
        client_tls: own.map(|own| redis::ClientTlsConfig {
            client_cert: own.chain.clone().into_bytes(),
            client_key: own.key.serialize_pem().into_bytes(),
        }),
        root_cert: Some(trusted.0.pem().into_bytes()),
    };
    redis::Client::build_with_tls(url, certificates).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_and_workers_trust_an_authority_of_their_own_and_show_certificates() {
    let authority = Authority::new("own");
    let own = authority.sign("worker", |_| {});
    for mutual in [false, true] {
        let server = Server::start();
        let certificate = authority.sign("localhost", |_| {});
        let greeting = Some(authority.serving(&certificate, mutual));
        let url = proxy(server.addr(), &Arc::new(Mutex::new(greeting))).await;
        let client = client(&url, &authority, mutual.then_some(&own));
        let numbers = Queue::<u32>::new(connect::reconnecting(&client).unwrap(), "q");
        let worker = quick_from(client, "q")
            .build(|_: Message<u32>| async {})
            .unwrap();
        for n in 0..100 {
            assert!(numbers.enqueue(&n).await.unwrap().is_accepted());
        }
        all_done(&numbers, 100).await;
        assert!(worker.stop(S(10)).await.is_clean());
        assert_eq!((worker.stats().finished, worker.stats().outages), (100, 0));
    }
}

/// A connection that must not be trusted is an outage as any other: the worker neither panics nor
/// spins nor takes anything over it, says what is wrong, and goes on once it is put right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_be_trusted_is_an_outage_until_it_is_put_right() {
    let (authority, stranger) = (Authority::new("own"), Authority::new("stranger"));
    let good = authority.sign("localhost", |_| {});
    let elsewhere = authority.sign("elsewhere.example", |_| {});
    let expired = authority.sign("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let unknown = stranger.sign("localhost", |_| {});
    let right = authority.serving(&good, false);
    for (what, wrong) in [
        ("another name", Some(authority.serving(&elsewhere, false))),
        ("expired", Some(authority.serving(&expired, false))),
        ("of a stranger", Some(stranger.serving(&unknown, false))),
        (
            "no client certificate",
            Some(authority.serving(&good, true)),
        ),
        ("cut in the handshake", None),
    ] {
        let server = Server::start();
        let greeting = Arc::new(Mutex::new(wrong));
        let url = proxy(server.addr(), &greeting).await;
        let numbers = queue::<u32>(server.url(), "q").await;
        assert!(numbers.enqueue(&1).await.unwrap().is_accepted());
        let worker = quick_from(client(&url, &authority, None), "q")
            .build(|_: Message<u32>| async {})
            .unwrap();
        let mut events = worker.events();
        let failed = async {
            loop {
                if let Event::Reconnecting { error, .. } = events.recv().await.unwrap() {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(S(60), failed).await.expect(what);
        assert!(!error.is_empty() && worker.is_running(), "{what}: {error}");
        // As long as many tries.
        tokio::time::sleep(MS(500)).await;
        let stats = worker.stats();
        assert_eq!((stats.taken, stats.polls), (0, 0), "{what}");
        assert!((1..=2).contains(&stats.outages), "{what}: {stats:?}");
        *greeting.lock().unwrap() = Some(Arc::clone(&right));
        eventually(what, async || worker.stats().finished == 1).await;
        assert!(worker.stop(S(10)).await.is_clean());
    }
}
