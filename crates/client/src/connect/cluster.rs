//! A cluster: the node that owns the queue's slot is looked up for each connection.

use futures_util::future::BoxFuture;
use redis::{
    aio::ConnectionLike, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult, Value,
};

use super::{
    any::{pipeline, AnyConnection},
    source::{open, Connect, ConnectOptions, Connection},
};
use crate::reply;

/// A cluster, by some of its nodes.
///
/// A queue is one key, so that a worker needs one node only: this source asks the given nodes, in
/// turn, who owns the key's slot, and connects to that node with the settings (credentials, TLS,
/// protocol) of the node that answered. When the slot moves or the node fails, the worker's
/// connection fails and the next one goes to the new owner; while the slot is on its way
/// (`ASK`), to the node that has the queue already.
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
            if let Some((host, port)) = options.ask.as_deref().and_then(parse_node) {
                return asking(&self.0[0], host, port, options).await;
            }
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
    if (host.is_empty() || host == own_host) && port == own_port {
        return Ok(asked.0);
    }
    open(&client_like(node, host, port)?, options).await
}

/// Connects to a node that is being given the queue's slot.
async fn asking(
    node: &ConnectionInfo,
    host: String,
    port: u16,
    options: &ConnectOptions,
) -> RedisResult<Connection> {
    let connection = open(&client_like(node, host, port)?, options).await?;
    Ok(Box::new(Asking(AnyConnection(connection))))
}

/// A client for another node of the same cluster. A node that does not know a name leaves it out,
/// which means the one that was used to reach it.
fn client_like(node: &ConnectionInfo, host: String, port: u16) -> RedisResult<Client> {
    let (own_host, _) = address(node.addr()).ok_or_else(no_owner)?;
    let host = if host.is_empty() {
        own_host.to_owned()
    } else {
        host
    };
    Client::open(node.clone().set_addr(with_address(node.addr(), host, port)))
}

fn parse_node(node: &str) -> Option<(String, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// A connection that says ASKING before each command.
struct Asking(AnyConnection);

impl ConnectionLike for Asking {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut both = pipeline(2);
            both.cmd("ASKING");
            both.add_command(command.clone());
            self.0.query_all(&both).await?.pop().ok_or_else(no_owner)?
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let mut all = redis::pipe();
            for command in commands.cmd_iter() {
                all.cmd("ASKING");
                all.add_command(command.clone());
            }
            let replies = self.0.req_packed_commands(&all, 0, all.len()).await?;
            let own = replies.into_iter().skip(1).step_by(2);
            Ok(own.skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
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
    fn a_node_is_named_by_host_and_port() {
        assert_eq!(
            parse_node("10.0.0.1:7000"),
            Some(("10.0.0.1".into(), 7_000))
        );
        assert_eq!(parse_node("::1:7000"), Some(("::1".into(), 7_000)));
        assert_eq!(parse_node(":7000"), Some((String::new(), 7_000)));
        assert_eq!(parse_node("host"), None);
    }

    #[test]
    fn no_nodes_are_an_error() {
        assert!(ClusterNodes::new(Vec::<String>::new()).is_err());
        assert!(ClusterNodes::new(["not an address"]).is_err());
    }
}
