//! What a server is started with.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::paths::{module_path, server_bin, workspace_root};
use crate::server::Server;
use crate::version::Version;

/// How a server keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Not at all.
    None,
    /// Snapshots: what `SHUTDOWN SAVE`, `SAVE` or `BGSAVE` wrote.
    Rdb,
    /// An append-only file of commands, also where it is rewritten.
    AofCommands,
    /// An append-only file whose rewritten part is a snapshot.
    AofSnapshot,
}

impl Persistence {
    /// The three that survive a restart.
    pub const DURABLE: [Self; 3] = [Self::Rdb, Self::AofCommands, Self::AofSnapshot];

    fn config(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::None | Self::Rdb => &[("save", "\"\""), ("appendonly", "no")],
            Self::AofCommands => &[
                ("save", "\"\""),
                ("appendonly", "yes"),
                ("appendfsync", "always"),
                ("aof-use-rdb-preamble", "no"),
            ],
            Self::AofSnapshot => &[
                ("save", "\"\""),
                ("appendonly", "yes"),
                ("appendfsync", "always"),
                ("aof-use-rdb-preamble", "yes"),
            ],
        }
    }
}

/// A server that did not come up.
#[derive(Debug)]
pub struct StartError {
    /// What went wrong.
    pub reason: String,
    /// The server's whole log.
    pub log: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the server's log:\n{}", self.reason, self.log)
    }
}

impl std::error::Error for StartError {}

#[derive(Clone, Debug)]
enum Module {
    UnderTest,
    At(PathBuf),
    None,
}

/// Starts a [`Server`]; by default the server under test with the module and no persistence.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    pub(crate) bin: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) dir: Option<PathBuf>,
    module: Module,
    module_args: Vec<String>,
    conf_file: Option<PathBuf>,
    persistence: Option<Persistence>,
    config: Vec<(String, String)>,
    pub(crate) sentinel: bool,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerBuilder {
    /// The server under test with the module and no persistence.
    pub fn new() -> Self {
        Self {
            bin: server_bin(),
            env: Vec::new(),
            dir: None,
            module: Module::UnderTest,
            module_args: Vec::new(),
            conf_file: None,
            persistence: Some(Persistence::None),
            config: Vec::new(),
            sentinel: false,
        }
    }

    /// A sentinel, which watches servers and has no data.
    pub(crate) fn sentinel() -> Self {
        Self {
            sentinel: true,
            persistence: None,
            ..Self::new().no_module()
        }
    }

    /// Another server binary.
    #[must_use]
    pub fn bin(mut self, bin: impl Into<PathBuf>) -> Self {
        self.bin = bin.into();
        self
    }

    /// Another module, or another build of it.
    #[must_use]
    pub fn module(mut self, module: impl Into<PathBuf>) -> Self {
        self.module = Module::At(module.into());
        self
    }

    /// No module.
    #[must_use]
    pub fn no_module(mut self) -> Self {
        self.module = Module::None;
        self
    }

    /// Arguments of the module's `loadmodule` line, as in `["lock-ms", "5000"]`.
    #[must_use]
    pub fn module_args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        self.module_args
            .extend(args.into_iter().map(|arg| arg.to_string()));
        self
    }

    /// One line of the server's configuration. A later line wins over an earlier one and over the
    /// configuration file.
    #[must_use]
    pub fn config(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.config.push((name.to_string(), value.to_string()));
        self
    }

    /// How the server keeps its data.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = Some(persistence);
        self
    }

    /// Starts from this configuration file. Its `loadmodule` line keeps its arguments and gets this
    /// builder's module; port, folder and log are the kit's; the rest counts as written, persistence
    /// included unless [`Self::persistence`] is called after this.
    #[must_use]
    pub fn conf_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.conf_file = Some(file.into());
        self.persistence = None;
        self
    }

    /// The `redis.conf` that the project ships.
    #[must_use]
    pub fn shipped_conf(self) -> Self {
        self.conf_file(workspace_root().join("redis.conf"))
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Works in this folder and leaves it there, instead of a temporary one that ends with the server.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not come up; the message has its log.
    #[track_caller]
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the server and waits until it answers; for tests of servers that must refuse to start.
    ///
    /// # Errors
    ///
    /// If it ends, or does not answer in time.
    pub fn try_start(self) -> Result<Server, StartError> {
        Server::launch(self)
    }

    /// The configuration file's text for a server on `port` that works in `dir`.
    pub(crate) fn render(&self, version: Version, port: u16, dir: &Path) -> String {
        let mut lines = Vec::new();
        let mut loads_module = false;
        if let Some(file) = &self.conf_file {
            let text = fs::read_to_string(file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for line in text.lines() {
                match loadmodule_args(line) {
                    Some(args) => {
                        loads_module = true;
                        lines.extend(self.loadmodule_line(args));
                    }
                    None => lines.push(line.to_string()),
                }
            }
        }
        if !loads_module {
            lines.extend(self.loadmodule_line(""));
        }
        lines.push("bind 127.0.0.1".to_string());
        lines.push(format!("port {port}"));
        lines.push(format!("dir {}", dir.display()));
        lines.push("logfile server.log".to_string());
        lines.push("daemonize no".to_string());
        if !self.sentinel {
            lines.push("repl-diskless-sync-delay 0".to_string());
        }
        if version.offers_redis(7, 0) && !self.sentinel {
            lines.push("enable-debug-command yes".to_string());
            lines.push("enable-module-command yes".to_string());
            // An effect that fails on a replica or while an AOF is loaded is a bug: make it fatal.
            lines.push("propagation-error-behavior panic".to_string());
        }
        let persistence = self.persistence.map_or(&[][..], Persistence::config);
        lines.extend(
            persistence
                .iter()
                .map(|(name, value)| format!("{name} {value}")),
        );
        lines.extend(
            self.config
                .iter()
                .map(|(name, value)| format!("{name} {value}")),
        );
        lines.push(String::new());
        lines.join("\n")
    }

    fn loadmodule_line(&self, args: &str) -> Option<String> {
        let module = match &self.module {
            Module::UnderTest => module_path(),
            Module::At(path) => path.clone(),
            Module::None => return None,
        };
        let own = self.module_args.join(" ");
        let line = format!("loadmodule {} {args} {own}", module.display());
        Some(line.trim_end().to_string())
    }
}

/// The arguments after the module's path, if this is a `loadmodule` line.
fn loadmodule_args(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix("loadmodule ")?.trim_start();
    Some(rest.split_once(' ').map_or("", |(_, args)| args.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loadmodule_line_gives_its_arguments() {
        assert_eq!(
            loadmodule_args("loadmodule /x/y.so lock-ms 5"),
            Some("lock-ms 5")
        );
        assert_eq!(loadmodule_args("loadmodule /x/y.so"), Some(""));
        assert_eq!(loadmodule_args("# loadmodule /x/y.so"), None);
    }
}
