//! A running server.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Connection};
use tempfile::TempDir;

use crate::builder::{ServerBuilder, StartError};
use crate::call;
use crate::paths::cli_bin;
use crate::port::FreePort;
use crate::reply::{Reply, ReplyExt};
use crate::spawn::{mortal, spawn};
use crate::version::Version;
use crate::wait::{wait_until, PATIENCE};
use crate::wire::Wire;

const LOG_TAIL_LINES: usize = 80;

/// How a server is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// `SHUTDOWN SAVE`: with a snapshot.
    Save,
    /// `SHUTDOWN NOSAVE`: without one; an append-only file is flushed all the same.
    NoSave,
}

/// A running server with its port and folder. It is killed when this value is dropped.
///
/// Dropping it fails the test if the server has died by itself meanwhile.
#[derive(Debug)]
pub struct Server {
    builder: ServerBuilder,
    version: Version,
    port: FreePort,
    dir: PathBuf,
    _temporary: Option<TempDir>,
    child: Option<Child>,
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
        let bytes = fs::read(self.dir.join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
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

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => false,
        }
    }

    /// Ends the server by SHUTDOWN; its folder and port stay for [`Self::start_again`].
    #[track_caller]
    pub fn shutdown(&mut self, how: Shutdown) {
        let mode = match how {
            Shutdown::Save => "SAVE",
            Shutdown::NoSave => "NOSAVE",
        };
        if let Err(error) = call!(self.conn(), "SHUTDOWN", mode) {
            // A server that obeys closes the connection; that is the good case.
            assert!(!error.starts_with("ERR"), "SHUTDOWN {mode}: {error}");
        }
        self.wait_for_exit();
    }

    /// Kills the server as a crash would; its folder and port stay for [`Self::start_again`].
    #[track_caller]
    pub fn kill9(&mut self) {
        let child = self.child.as_mut().expect("the server runs");
        child.kill().expect("a child can be killed");
        self.wait_for_exit();
    }

    /// Waits until the process ends by itself and gives its status; for tests that make it end.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the server runs");
        let mut status = None;
        wait_until(PATIENCE, || {
            status = child.try_wait().expect("a child can be asked");
            status.is_some()
        });
        status.expect("the process has ended")
    }

    /// Starts a stopped server on the same port, folder and configuration.
    ///
    /// # Panics
    ///
    /// If it does not come up; the message has its log.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(error) = self.try_start_again() {
            panic!("{error}");
        }
    }

    /// [`Self::start_again`] for tests of servers that must refuse to start.
    ///
    /// # Errors
    ///
    /// If it ends, or does not answer in time.
    pub fn try_start_again(&mut self) -> Result<(), StartError> {
        assert!(self.child.is_none(), "the server still runs");
        let mut command = mortal(&self.builder.bin);
        command
            .arg(self.dir.join("server.conf"))
            .args(self.builder.sentinel.then_some("--sentinel"))
            .current_dir(&self.dir)
            .envs(self.builder.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // What the server cannot log (a failed line of the configuration, a sanitizer's report) goes
        // to the same file.
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("server.log"))
            .expect("the log can be opened");
        command.stderr(log);
        let child = spawn(command).map_err(|error| StartError {
            reason: format!("{}: {error}", self.builder.bin.display()),
            log: String::new(),
        })?;
        self.child = Some(child);
        self.wait_until_ready().map_err(|reason| {
            self.end();
            StartError {
                reason,
                log: self.log(),
            }
        })
    }

    /// [`Self::shutdown`], then [`Self::start_again`].
    #[track_caller]
    pub fn restart(&mut self, how: Shutdown) {
        self.shutdown(how);
        self.start_again();
    }

    /// [`Self::kill9`], then [`Self::start_again`].
    #[track_caller]
    pub fn crash_and_restart(&mut self) {
        self.kill9();
        self.start_again();
    }

    /// Adds a line to the configuration that counts from the next start on.
    pub fn configure_next_start(&self, name: &str, value: &str) {
        let mut file = fs::File::options()
            .append(true)
            .open(self.dir.join("server.conf"))
            .expect("the configuration exists");
        writeln!(file, "{name} {value}").expect("the configuration can be written");
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

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.as_mut().expect("just started").try_wait() {
                return Err(format!("the server ended at once: {status}"));
            }
            if TcpStream::connect_timeout(&self.addr(), Duration::from_secs(1)).is_ok() {
                // The replica's refusals (MASTERDOWN) and LOADING do not apply to the same commands
                // on every version, so ask in the plainest way.
                let sentinel = self.builder.sentinel;
                let ready = self.try_conn().is_ok_and(|mut conn| {
                    sentinel || info(&mut conn, "persistence", "loading").as_deref() == Some("0")
                });
                if ready {
                    return Ok(());
                }
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("the server does not answer within {PATIENCE:?}"));
            }
            thread::sleep(Duration::from_millis(3));
        }
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let died = self.child.is_some() && !self.is_running();
        self.end();
        if died || thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
            eprintln!(
                "--- the last lines of the server's log, port {} ---\n{}\n---",
                self.port(),
                tail.join("\n")
            );
        }
        assert!(
            !died || thread::panicking(),
            "the server on port {} died by itself",
            self.port()
        );
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
