//! A cluster: the node that owns the queue's slot is looked up for each connection.

use futures_util::future::BoxFuture;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    Value,
};

use super::{open, Connect, ConnectOptions, Connection};
use crate::{connection::AnyConnection, reply};

/// A cluster, by some of its nodes.
///
/// A queue is one key, so that a worker needs one node only: this source asks the given nodes, in
/// turn, who owns the key's slot, and connects to that node with the settings (credentials, TLS,
/// protocol) of the node that answered. When the slot moves or the node fails, the worker's
/// connection fails and the next one goes to the new owner.
#[derive(Debug, Clone)]
pub struct ClusterNodes(Vec<ConnectionInfo>);

impl ClusterNodes {
    /// The cluster that these nodes belong to. They need not be all its nodes.
    ///
    /// An address that cannot be parsed, or none at all, is an error.
    pub fn new<I>(nodes: I) -> RedisResult<Self>
    where
        I: IntoIterator,
        I::Item: IntoConnectionInfo,
    {
        let nodes: Vec<_> = nodes
            .into_iter()
            .map(|node| node.into_connection_info())
            .collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "no cluster node given",
            )));
        }
        Ok(Self(nodes))
    }
}

impl Connect for ClusterNodes {
    fn connect<'a>(
        &'a self,
        options: &'a ConnectOptions,
    ) -> BoxFuture<'a, RedisResult<Connection>> {
        Box::pin(async move {
            let mut failure = None;
            // Another node each time, so that one that answers but is wrong cannot hold us up.
            let start = fastrand::usize(..self.0.len());
            for turn in 0..self.0.len() {
                let node = &self.0[(start + turn) % self.0.len()];
                match through(node, options).await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => failure = Some(error),
                }
            }
            // The list is not empty, so that there was a failure.
            Err(failure.unwrap_or_else(no_owner))
        })
    }
}

/// Asks `node` for the owner of the queue's slot and connects to it.
async fn through(node: &ConnectionInfo, options: &ConnectOptions) -> RedisResult<Connection> {
    let mut asked = AnyConnection(open(&Client::open(node.clone())?, options).await?);
    let slot = asked
        .query(redis::cmd("CLUSTER").arg("KEYSLOT").arg(&options.queue[..]))
        .await?;
    let slot = reply::int(&slot).ok_or_else(no_owner)?;
    let slots = asked.query(redis::cmd("CLUSTER").arg("SLOTS")).await?;
    let (host, port) = owner(&slots, slot).ok_or_else(no_owner)?;
    let (own_host, own_port) = address(node.addr()).ok_or_else(no_owner)?;
    // A node that does not know its own name gives an empty one, which means the one just used.
    let host = if host.is_empty() {
        own_host.to_owned()
    } else {
        host
    };
    if (host.as_str(), port) == (own_host, own_port) {
        return Ok(asked.0);
    }
    let target = node.clone().set_addr(with_address(node.addr(), host, port));
    open(&Client::open(target)?, options).await
}

/// Host and port of the master of a slot, from the reply to `CLUSTER SLOTS`.
fn owner(slots: &Value, slot: i64) -> Option<(String, u16)> {
    let range = slots.as_sequence()?.iter().find_map(|range| {
        let range = range.as_sequence()?;
        let covers = reply::int(range.first()?)? <= slot && slot <= reply::int(range.get(1)?)?;
        covers.then_some(range)
    })?;
    let master = range.get(2)?.as_sequence()?;
    let host = master.first().and_then(reply::text).unwrap_or_default();
    // "?" is how a server says that it does not know a name.
    let host = if host == "?" {
        String::new()
    } else {
        host.into_owned()
    };
    Some((host, u16::try_from(reply::int(master.get(1)?)?).ok()?))
}

fn address(addr: &ConnectionAddr) -> Option<(&str, u16)> {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Some((host, *port))
        }
        _ => None,
    }
}

fn with_address(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    }
}

fn no_owner() -> RedisError {
    RedisError::from((
        ErrorKind::ClusterConnectionNotFound,
        "no node owns the queue's slot",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, to: i64, host: Value, port: i64) -> Value {
        let node = Value::Array(vec![
            host,
            Value::Int(port),
            Value::SimpleString("id".into()),
        ]);
        Value::Array(vec![Value::Int(from), Value::Int(to), node])
    }

    #[test]
    fn the_owner_of_a_slot_is_found() {
        let host = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let slots = Value::Array(vec![
            range(0, 5_460, host("10.0.0.1"), 7_000),
            range(5_461, 10_922, host("10.0.0.2"), 7_001),
            range(10_923, 16_382, Value::Nil, 7_002),
        ]);
        assert_eq!(owner(&slots, 0), Some(("10.0.0.1".into(), 7_000)));
        assert_eq!(owner(&slots, 5_461), Some(("10.0.0.2".into(), 7_001)));
        assert_eq!(owner(&slots, 10_923), Some((String::new(), 7_002)));
        assert_eq!(owner(&slots, 16_383), None);
    }

    #[test]
    fn settings_go_along_to_the_owner() {
        let tls = ConnectionAddr::TcpTls {
            host: "a".into(),
            port: 1,
            insecure: true,
            tls_params: None,
        };
        match with_address(&tls, "b".into(), 2) {
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure,
                ..
            } => {
                assert_eq!((host.as_str(), port, insecure), ("b", 2, true));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_nodes_are_an_error() {
        assert!(ClusterNodes::new(Vec::<String>::new()).is_err());
        assert!(ClusterNodes::new(["not an address"]).is_err());
    }
}
