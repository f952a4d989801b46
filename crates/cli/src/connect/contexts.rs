//! Names for servers, kept in one file.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What the file holds.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The one that counts where none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// All of them by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// How one server is reached.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The address, as `--url` takes it.
    pub url: String,
    /// As `--tls-ca`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// As `--tls-cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// As `--tls-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
}

/// Where the file is: REDIS_MQ_CONTEXTS, else in the user's folder for configurations.
pub fn file() -> Option<PathBuf> {
    let given = |name| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(file) = given("REDIS_MQ_CONTEXTS") {
        return Some(file.into());
    }
    let folder = match given("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(given("HOME")?).join(".config"),
    };
    Some(folder.join("redis-mq/contexts.json"))
}

impl Contexts {
    /// Reads the file; one that is not there holds nothing.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let text = match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|error| Failure::local(file.display(), &error))?,
        };
        serde_json::from_slice(&text).map_err(|error| Failure::local(file.display(), &error))
    }

    /// Writes the file, whole or not at all. It may hold passwords: only the user can read it.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        let wrong = |error: &dyn std::error::Error| Failure::local(file.display(), error);
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
        let text = serde_json::to_string_pretty(self).map_err(|error| wrong(&error))?;
        // Temporary files are the user's alone, and keep that when they get their name.
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|error| wrong(&error))?;
        writeln!(new, "{text}").map_err(|error| wrong(&error))?;
        new.persist(file).map_err(|error| wrong(&error.error))?;
        Ok(())
    }

    /// The context of that name.
    pub fn named(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts
            .get(name)
            .ok_or_else(|| Failure::usage(format!("no such context: {name}")))
    }
}
