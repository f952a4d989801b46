//! A running server.

mod lifecycle;

pub use lifecycle::Shutdown;

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::builder::{ServerBuilder, StartError};
use crate::call;
use crate::paths::cli_bin;
use crate::port::FreePort;
use crate::reply::{Reply, ReplyExt};
use crate::version::Version;
use crate::wait::{wait_until, PATIENCE};
use crate::wire::Wire;

/// A running server with its port and folder. It is killed when this value is dropped.
///
/// Dropping it fails the test if the server has died by itself meanwhile, or if its log shows a crash
/// or a panic of the module.
#[derive(Debug)]
pub struct Server {
    builder: ServerBuilder,
    version: Version,
    port: FreePort,
    dir: PathBuf,
    _temporary: Option<TempDir>,
    child: Option<Child>,
    /// Where this run's part of the log begins.
    log_start: usize,
}

impl Server {
    /// The server under test with the module and no persistence.
    #[track_caller]
    pub fn start() -> Self {
        ServerBuilder::new().start()
    }

    /// Options for a server; the same as [`ServerBuilder::new`].
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    pub(crate) fn launch(builder: ServerBuilder) -> Result<Self, StartError> {
        let version = Version::of_binary(&builder.bin);
        let port = FreePort::claim();
        let (dir, temporary) = match &builder.dir {
            Some(dir) => {
                fs::create_dir_all(dir).expect("the server's folder can be made");
                let dir = dir.canonicalize().expect("the server's folder exists");
                (dir, None)
            }
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix("redis-mq-")
                    .tempdir()
                    .expect("a temporary folder can be made");
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        fs::write(
            dir.join("server.conf"),
            builder.render(version, port.number(), &dir),
        )
        .expect("the configuration can be written");
        let mut server = Self {
            builder,
            version,
            port,
            dir,
            _temporary: temporary,
            child: None,
            log_start: 0,
        };
        server.try_start_again()?;
        Ok(server)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The address for a client of the redis crate, in RESP2.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.addr())
    }

    /// The address for a client of the redis crate, in RESP3.
    pub fn url_resp3(&self) -> String {
        format!("redis://{}/?protocol=resp3", self.addr())
    }

    /// The folder with the data, `server.conf` and `server.log`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the server is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The process id.
    ///
    /// # Panics
    ///
    /// If the server has been stopped.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// All that the server has logged, over all its runs.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.log_bytes()).into_owned()
    }

    fn log_bytes(&self) -> Vec<u8> {
        fs::read(self.dir.join("server.log")).unwrap_or_default()
    }

    /// A new connection in RESP2. A reply that takes longer than [`PATIENCE`] is an error.
    #[track_caller]
    pub fn conn(&self) -> Connection {
        self.try_conn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.url()))
    }

    /// [`Self::conn`] for servers that may be down.
    ///
    /// # Errors
    ///
    /// Those of the redis crate.
    pub fn try_conn(&self) -> redis::RedisResult<Connection> {
        connect(&self.url())
    }

    /// A new connection in RESP3.
    #[track_caller]
    pub fn conn_resp3(&self) -> Connection {
        connect(&self.url_resp3()).unwrap_or_else(|error| panic!("{}: {error}", self.url()))
    }

    /// A new connection that shows the bytes on the wire and sends without waiting for the reply.
    #[track_caller]
    pub fn wire(&self) -> Wire {
        Wire::connect(self.addr())
    }

    /// Waits until this many clients are blocked.
    #[track_caller]
    pub fn wait_for_blocked(&self, clients: usize) {
        let mut conn = self.conn();
        wait_until(PATIENCE, || {
            info(&mut conn, "clients", "blocked_clients").as_deref() == Some(&clients.to_string())
        });
    }

    /// One field of INFO.
    #[track_caller]
    pub fn info(&self, section: &str, field: &str) -> Option<String> {
        info(&mut self.conn(), section, field)
    }

    /// Runs the command line client against this server with these arguments; null if there is no
    /// such client on this machine.
    #[track_caller]
    pub fn cli<I>(&self, args: I) -> Option<Output>
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        let output = Command::new(cli_bin()?)
            .args(["-h", "127.0.0.1", "-p"])
            .arg(self.port().to_string())
            .args(args)
            .stdin(Stdio::null())
            .output();
        Some(output.unwrap_or_else(|error| panic!("the command line client: {error}")))
    }

    /// Makes this server a replica of another and waits until it has everything.
    #[track_caller]
    pub fn replica_of(&self, primary: &Server) {
        self.replica_of_port(primary.port());
        self.wait_for_sync(primary);
    }

    /// Makes this server a replica of whatever listens on that port, a proxy for instance, without
    /// waiting.
    #[track_caller]
    pub fn replica_of_port(&self, port: u16) {
        call!(self.conn(), "REPLICAOF", "127.0.0.1", port).expect("REPLICAOF is accepted");
    }

    /// Makes this replica a primary.
    #[track_caller]
    pub fn promote(&self) {
        call!(self.conn(), "REPLICAOF", "NO", "ONE").expect("REPLICAOF is accepted");
    }

    /// Waits until this replica has applied everything that `primary` has sent so far.
    #[track_caller]
    pub fn wait_for_sync(&self, primary: &Server) {
        let mut there = primary.conn();
        let target = offset(&mut there, "master_repl_offset");
        let mut here = self.conn();
        wait_until(PATIENCE, || {
            // A replica that has not noticed yet that its primary restarted has the old history; a
            // primary may start a new one when its first replica comes.
            let history = info(&mut there, "replication", "master_replid");
            info(&mut here, "replication", "master_link_status").as_deref() == Some("up")
                && info(&mut here, "replication", "master_replid") == history
                && offset(&mut here, "slave_repl_offset") >= target
        });
    }
}

fn connect(url: &str) -> redis::RedisResult<Connection> {
    let conn = Client::open(url)?.get_connection_with_timeout(Duration::from_secs(10))?;
    conn.set_read_timeout(Some(PATIENCE))?;
    Ok(conn)
}

/// One field of INFO; none if the section or the field is missing.
#[track_caller]
pub(crate) fn info(conn: &mut Connection, section: &str, field: &str) -> Option<String> {
    let reply: Reply = call!(*conn, "INFO", section);
    let text = reply.ok()?.text();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(value.trim_end().to_string())
}

fn offset(conn: &mut Connection, field: &str) -> u64 {
    info(conn, "replication", field)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}
