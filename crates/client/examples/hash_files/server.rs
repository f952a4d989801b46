//! A server of our own, with the shipped configuration.

use std::{
    fmt::Write as _,
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use redis_mq_client::redis;
use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::Failure;

pub struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

/// Lines of the shipped configuration that are about where the server is and runs.
const REPLACED: [&str; 8] = [
    "bind",
    "port",
    "dir",
    "loadmodule",
    "daemonize",
    "pidfile",
    "logfile",
    "unixsocket",
];

const STARTUP: Duration = Duration::from_secs(20);

impl Server {
    pub async fn start(bin: &Path, module: &Path, conf: &Path) -> Result<Self, Failure> {
        let module = module
            .canonicalize()
            .map_err(|e| format!("{}: {e}", module.display()))?;
        let shipped =
            std::fs::read_to_string(conf).map_err(|e| format!("{}: {e}", conf.display()))?;
        let dir = std::env::temp_dir().join(format!("redis-mq-demo-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        // Somebody else may take the port between our look and the server's.
        let mut failure = Failure::from("the server was not started");
        for _ in 0..5 {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            std::fs::write(
                dir.join("server.conf"),
                adapt(&shipped, &module, &dir, port),
            )?;
            match Self::try_start(bin, &dir, port).await {
                Ok(server) => return Ok(server),
                Err(error) => failure = error,
            }
        }
        let log = std::fs::read_to_string(dir.join("server.log")).unwrap_or_default();
        let _ = std::fs::remove_dir_all(&dir);
        Err(format!("{failure}\n{log}").into())
    }

    async fn try_start(bin: &Path, dir: &Path, port: u16) -> Result<Self, Failure> {
        let child = Command::new(bin)
            .arg(dir.join("server.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{}: {e}", bin.display()))?;
        let mut server = Self {
            child,
            port,
            dir: dir.to_path_buf(),
        };
        let deadline = Instant::now() + STARTUP;
        while server.ask(redis::cmd("PING")).await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("the server ended: {status}").into());
            }
            if Instant::now() > deadline {
                return Err("the server does not answer".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    async fn ask(&self, command: redis::Cmd) -> redis::RedisResult<String> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        command.query_async(&mut connection).await
    }

    /// Waits until that many clients are blocked.
    pub async fn wait_for_blocked(&self, clients: usize) -> Result<(), Failure> {
        let wanted = format!("blocked_clients:{clients}");
        let deadline = Instant::now() + STARTUP;
        loop {
            let mut info = redis::cmd("INFO");
            info.arg("clients");
            if self
                .ask(info)
                .await?
                .lines()
                .any(|line| line.trim() == wanted)
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("worker {} does not wait on the queue", clients - 1).into());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn stop(mut self) -> Result<(), Failure> {
        let mut shutdown = redis::cmd("SHUTDOWN");
        shutdown.arg("NOSAVE");
        // The answer to this is the end of the connection.
        let _ = self.ask(shutdown).await;
        tokio::time::timeout(STARTUP, self.child.wait())
            .await
            .map_err(|_| Failure::from("the server did not end"))??;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process is killed with its handle; its files are of no use to anybody.
        let _: io::Result<()> = self.child.start_kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The shipped configuration for this module, folder and port.
fn adapt(shipped: &str, module: &Path, dir: &Path, port: u16) -> String {
    let mut module_arguments = String::new();
    let mut conf = String::new();
    for line in shipped.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("loadmodule") => {
                module_arguments = words.skip(1).map(|word| format!(" {word}")).collect();
            }
            Some(word) if REPLACED.contains(&word) => {}
            _ => {
                conf.push_str(line);
                conf.push('\n');
            }
        }
    }
    // Writing to a string does not fail.
    let _ = write!(
        conf,
        "bind 127.0.0.1\nport {port}\ndir {dir:?}\nlogfile {log:?}\ndaemonize no\n\
         loadmodule {module:?}{module_arguments}\n",
        log = dir.join("server.log"),
    );
    conf
}
