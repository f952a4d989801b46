//! Which server is under test.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Redis.
    Redis,
    /// Valkey, which left Redis at 7.2 and counts its own versions.
    Valkey,
}

/// A server's name and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose server it is.
    pub flavor: Flavor,
    /// Major, minor and patch number, as the flavor counts them.
    pub number: (u16, u16, u16),
}

static KNOWN: Mutex<Option<HashMap<PathBuf, Version>>> = Mutex::new(None);

impl Version {
    /// Asks a server binary; each only once per process.
    ///
    /// # Panics
    ///
    /// If it is not a Redis or Valkey server.
    pub fn of_binary(bin: &Path) -> Self {
        let mut known = KNOWN.lock().expect("no holder of this lock panics");
        let known = known.get_or_insert_with(HashMap::new);
        if let Some(version) = known.get(bin) {
            return *version;
        }
        let version = Self::ask(bin).unwrap_or_else(|reason| panic!("{}: {reason}", bin.display()));
        known.insert(bin.to_path_buf(), version);
        version
    }

    /// Whether the server offers what Redis got in `major.minor`. Every Valkey counts as Redis 7.2.
    pub fn offers_redis(&self, major: u16, minor: u16) -> bool {
        let equal = match self.flavor {
            Flavor::Redis => (self.number.0, self.number.1),
            Flavor::Valkey => (7, 2),
        };
        equal >= (major, minor)
    }

    /// Whether it is Valkey, of this version or a later one.
    pub fn is_valkey(&self, major: u16, minor: u16) -> bool {
        self.flavor == Flavor::Valkey && (self.number.0, self.number.1) >= (major, minor)
    }

    fn ask(bin: &Path) -> Result<Self, String> {
        let output = Command::new(bin)
            .arg("--version")
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        Self::parse(&text).ok_or_else(|| format!("unknown version: {text}"))
    }

    /// Reads `Redis server v=7.0.15 sha=…` or `Valkey server v=9.1.2 sha=…`.
    fn parse(text: &str) -> Option<Self> {
        let flavor = match text.split(' ').next()? {
            "Redis" => Flavor::Redis,
            "Valkey" => Flavor::Valkey,
            _ => return None,
        };
        let number = text
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("v="))?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        Some(Self {
            flavor,
            number: (parts.next()??, parts.next()??, parts.next()??),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.number;
        write!(f, "{:?} {major}.{minor}.{patch}", self.flavor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_counts_as_the_redis_it_left() {
        let valkey = Version::parse("Valkey server v=9.1.2 sha=00000000:0 malloc=libc").unwrap();
        assert_eq!(valkey.to_string(), "Valkey 9.1.2");
        assert!(valkey.offers_redis(7, 2) && !valkey.offers_redis(8, 0));
        let redis = Version::parse("Redis server v=6.2.14 sha=00000000:0 bits=64").unwrap();
        assert!(redis.offers_redis(6, 2) && !redis.offers_redis(7, 0));
    }
}
