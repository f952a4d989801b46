//! Addresses: what `--url` may say.

use redis_mq_client::redis::{ConnectionInfo, IntoConnectionInfo};

use crate::failure::Failure;

/// Where the queues are.
#[derive(Debug, Clone)]
pub enum Address {
    /// One server.
    Server(ConnectionInfo),
    /// A cluster, by some of its nodes.
    Cluster(Vec<ConnectionInfo>),
    /// The master of that name, asked for at these sentinels. User, password and database in the
    /// address are the master's.
    Sentinel {
        /// The sentinels, at least one.
        nodes: Vec<ConnectionInfo>,
        /// The name that they watch it under.
        master: String,
    },
}

impl Address {
    /// Reads an address. Errors do not repeat it, since it may hold a password.
    pub fn parse(url: &str) -> Result<Self, Failure> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("it has to begin with redis://, rediss:// or unix://"));
        };
        let (plain, kind) = match scheme.split_once('+') {
            Some((plain, kind @ ("cluster" | "sentinel"))) => (plain, kind),
            _ => return Ok(Self::Server(node(url)?)),
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), place),
        };
        let (master, db) = match kind {
            "sentinel" => path.split_once('/').unwrap_or((path, "")),
            _ => ("", path),
        };
        let nodes = hosts
            .split(',')
            .map(|host| node(&format!("{plain}://{user}{host}/{db}")))
            .collect::<Result<Vec<_>, _>>()?;
        match kind {
            "cluster" => Ok(Self::Cluster(nodes)),
            _ if master.is_empty() => Err(wrong("the master's name is missing behind the hosts")),
            _ => Ok(Self::Sentinel {
                nodes,
                master: master.to_owned(),
            }),
        }
    }

    /// The address without user and password.
    pub fn shown(&self) -> String {
        let list = |nodes: &[ConnectionInfo]| {
            let nodes: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
            nodes.join(",")
        };
        match self {
            Self::Server(server) => server.addr().to_string(),
            Self::Cluster(nodes) => list(nodes),
            Self::Sentinel { nodes, master } => format!("{} at {}", master, list(nodes)),
        }
    }
}

fn node(url: &str) -> Result<ConnectionInfo, Failure> {
    url.into_connection_info()
        .map_err(|error| wrong(&error.to_string()))
}

fn wrong(why: &str) -> Failure {
    Failure::usage(format!("the address (--url or REDIS_MQ_URL): {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn every_kind_of_address_is_read_and_shown_without_its_password() {
        for (url, shown) in [
            ("redis://ada:secret@h:1/2", "h:1"),
            ("rediss://h:1", "h:1"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("redis+cluster://:secret@a:1,b:2", "a:1,b:2"),
            (
                "rediss+sentinel://:secret@a:1,b:2/main/3",
                "main at a:1,b:2",
            ),
        ] {
            assert_eq!(Address::parse(url).unwrap().shown(), shown, "{url}");
        }
        let sentinel = Address::parse("redis+sentinel://:secret@a:1/main/3").unwrap();
        let Address::Sentinel { nodes, .. } = sentinel else {
            panic!("{sentinel:?}");
        };
        assert_eq!(nodes[0].redis_settings().db(), 3);
        assert_eq!(nodes[0].redis_settings().password(), Some("secret"));
    }

    #[test]
    fn a_wrong_address_is_an_error_that_does_not_repeat_it() {
        for url in [
            "secret",
            "http://secret",
            "redis+sentinel://h:1",
            "redis://:secret@h:notaport",
            "redis+cluster://",
        ] {
            let failure = Address::parse(url).unwrap_err();
            assert_eq!(failure.exit(), Exit::USAGE, "{url}");
            assert!(!failure.line().unwrap().contains("secret"), "{url}");
        }
    }
}
