//! The server, wherever it is: one address, a cluster, or whatever Sentinel names.

pub mod address;
pub mod contexts;
mod search;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use futures_util::{stream, StreamExt as _, TryStreamExt as _};
use redis_mq_client::redis::{
    self,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection,
    cluster_routing::{RoutingInfo, SingleNodeRoutingInfo},
    sentinel::{SentinelClientBuilder, SentinelServerType},
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, Pipeline,
    RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};

pub use self::search::Search;
use self::{
    address::Address,
    contexts::{Context, Contexts},
};
use crate::{args::Common, failure::Failure, reply};

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a reply may take.
pub const RESPONSE: Duration = Duration::from_secs(30);
/// How many commands are sent before their replies are read.
pub const PIPELINE: usize = 500;

/// A connection to the server that answers.
#[derive(Clone)]
pub struct Server {
    connection: Connection,
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// What connections are made from: an address with its certificates, all of it checked.
#[derive(Clone)]
pub struct Source {
    address: Address,
    certificates: Option<TlsCertificates>,
}

impl Source {
    /// What the options, the environment or the chosen context say.
    pub fn new(common: &Common) -> Result<Self, Failure> {
        let mut context = chosen(common)?;
        for (given, own) in [
            (&common.tls_ca, &mut context.tls_ca),
            (&common.tls_cert, &mut context.tls_cert),
            (&common.tls_key, &mut context.tls_key),
        ] {
            if given.is_some() {
                own.clone_from(given);
            }
        }
        Ok(Self {
            address: Address::parse(&context.url)?,
            certificates: certificates(&context)?,
        })
    }

    /// The address, without what is secret in it.
    pub fn shown(&self) -> String {
        self.address.shown()
    }

    /// A new connection whose replies may take that long.
    pub async fn connect(&self, response: Duration) -> Result<Server, Failure> {
        match open(self.address.clone(), self.certificates.clone(), response).await {
            Ok(connection) => Ok(Server { connection }),
            Err(error) => {
                let failure = Failure::from(error);
                let shown = self.address.shown();
                let line = format!("{shown}: {}", failure.line().unwrap_or_default());
                Err(failure.with_line(&line))
            }
        }
    }
}

fn chosen(common: &Common) -> Result<Context, Failure> {
    let plain = |url: &str| Context {
        url: url.into(),
        ..Context::default()
    };
    if let Some(url) = &common.url {
        return Ok(plain(url));
    }
    let read = || contexts::file().map_or(Ok(Contexts::default()), |file| Contexts::read(&file));
    if let Some(name) = &common.context {
        return read()?.named(name).cloned();
    }
    if let Some(url) = std::env::var("REDIS_MQ_URL")
        .ok()
        .filter(|url| !url.is_empty())
    {
        return Ok(plain(&url));
    }
    let all = read()?;
    match &all.current {
        Some(name) => all.named(name).cloned(),
        None => Ok(plain("redis://127.0.0.1:6379/")),
    }
}

impl Server {
    /// Connects as the options say.
    pub async fn connect(common: &Common) -> Result<Self, Failure> {
        Source::new(common)?.connect(RESPONSE).await
    }

    /// Sends one command.
    pub async fn call(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let value = self.connection.req_packed_command(command).await?;
        Ok(value.extract_error()?)
    }

    /// Sends many commands and gives one answer for each, in their order.
    pub async fn call_all(
        &mut self,
        commands: &[Cmd],
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        // A node has only its own keys, so that there each pipeline is about one key.
        let together = |one: &Cmd, next: &Cmd| match &self.connection {
            Connection::Single(_) => true,
            Connection::Cluster(_) => key(one) == key(next),
        };
        let mut pipelines = Vec::new();
        for some in commands
            .chunk_by(together)
            .flat_map(|run| run.chunks(PIPELINE))
        {
            let mut pipeline = Pipeline::with_capacity(some.len());
            // An error stays with its command.
            pipeline.ignore_errors();
            for command in some {
                pipeline.add_command(command.clone());
            }
            pipelines.push(pipeline);
        }
        let sent = pipelines.into_iter().map(|pipeline| {
            let mut connection = self.connection.clone();
            async move {
                let count = pipeline.len();
                connection.req_packed_commands(&pipeline, 0, count).await
            }
        });
        let abreast = match &self.connection {
            Connection::Single(_) => 1,
            Connection::Cluster(_) => 50,
        };
        let values: Vec<Vec<Value>> = stream::iter(sent).buffered(abreast).try_collect().await?;
        let answer = |value: Value| value.extract_error().map_err(Failure::from);
        Ok(values.into_iter().flatten().map(answer).collect())
    }

    /// The names of all queues that match the pattern, in order. A step of the server looks at
    /// about a thousand keys.
    pub async fn queues(&mut self, pattern: Option<&str>) -> Result<Vec<Vec<u8>>, Failure> {
        let mut found = BTreeSet::new();
        let mut search = Search::new(pattern);
        while !search.is_over() {
            found.extend(search.step(self).await?);
        }
        Ok(found.into_iter().collect())
    }

    /// A section of INFO of each node that has keys of its own, with the node's address in a cluster.
    pub async fn info(&mut self, section: &str) -> Result<Vec<NodeInfo>, Failure> {
        let mut told = Vec::new();
        for node in self.nodes().await? {
            let mut command = redis::cmd("INFO");
            command.arg(section);
            let text = self.call_node(command, node.as_ref()).await?;
            told.push(NodeInfo {
                node: node.map(|(host, port)| format!("{host}:{port}")),
                text: reply::text(&text).unwrap_or_default(),
            });
        }
        Ok(told)
    }

    /// The nodes that have keys of their own; one without a name where there is no cluster.
    async fn nodes(&mut self) -> Result<Vec<Option<(String, u16)>>, Failure> {
        if matches!(self.connection, Connection::Single(_)) {
            return Ok(vec![None]);
        }
        let slots = self.call(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        let primary = |range: &Value| {
            let node = reply::items(reply::items(range)?.get(2)?)?;
            let port = reply::int(node.get(1)?)?.try_into().ok()?;
            Some((reply::text(node.first()?)?, port))
        };
        let slots = reply::items(&slots).unwrap_or_default();
        let nodes: BTreeSet<_> = slots.iter().filter_map(primary).collect();
        Ok(nodes.into_iter().map(Some).collect())
    }

    async fn call_node(
        &mut self,
        command: Cmd,
        node: Option<&(String, u16)>,
    ) -> Result<Value, Failure> {
        match (&mut self.connection, node) {
            (Connection::Cluster(cluster), Some((host, port))) => {
                let by_address = SingleNodeRoutingInfo::ByAddress {
                    host: host.clone(),
                    port: *port,
                };
                let routing = RoutingInfo::SingleNode(by_address);
                Ok(cluster.route_command(command, routing).await?)
            }
            _ => self.call(&command).await,
        }
    }
}

/// What a node tells of itself.
#[derive(Debug)]
pub struct NodeInfo {
    /// Its address; none where there is no cluster.
    pub node: Option<String>,
    text: String,
}

impl NodeInfo {
    fn value(&self, field: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
    }

    /// Whether it tells this field.
    pub fn has(&self, field: &str) -> bool {
        self.value(field).is_some()
    }

    /// A number; 0 where a server does not tell it.
    pub fn count(&self, field: &str) -> u64 {
        let number = self.value(field).and_then(|text| text.trim().parse().ok());
        number.unwrap_or(0)
    }
}

/// What the command is about: its first argument, or the second one of a command in two words.
fn key(command: &Cmd) -> Option<Vec<u8>> {
    let mut args = command.args_iter();
    let two_words = matches!(args.next()?, redis::Arg::Simple(b"MEMORY"));
    match args.nth(usize::from(two_words))? {
        redis::Arg::Simple(key) => Some(key.to_vec()),
        _ => None,
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(one) => one.req_packed_command(cmd),
            Self::Cluster(all) => all.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(one) => one.req_packed_commands(pipeline, offset, count),
            Self::Cluster(all) => all.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(one) => one.get_db(),
            Self::Cluster(all) => all.get_db(),
        }
    }
}

async fn open(
    address: Address,
    certificates: Option<TlsCertificates>,
    response: Duration,
) -> RedisResult<Connection> {
    match address {
        Address::Server(server) => single(client(server, certificates)?, response).await,
        Address::Cluster(nodes) => {
            let mut builder = ClusterClientBuilder::new(nodes)
                .connection_timeout(CONNECT)
                .response_timeout(response)
                .retries(3);
            if let Some(certificates) = certificates {
                builder = builder.certs(certificates);
            }
            let connection = builder.build()?.get_async_connection().await?;
            Ok(Connection::Cluster(connection))
        }
        Address::Sentinel { nodes, master } => {
            single(ask_sentinels(nodes, master, certificates).await?, response).await
        }
    }
}

async fn ask_sentinels(
    nodes: Vec<ConnectionInfo>,
    master: String,
    certificates: Option<TlsCertificates>,
) -> RedisResult<Client> {
    // User, password and database are the same in all of them.
    let settings = nodes[0].redis_settings().clone();
    let secure = matches!(nodes[0].addr(), ConnectionAddr::TcpTls { .. });
    let addresses: Vec<_> = nodes.iter().map(|node| node.addr().clone()).collect();
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_redis_db(settings.db());
    if let Some(name) = settings.username() {
        builder = builder.set_client_to_redis_username(name);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if secure {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build()?.async_get_client().await
}

fn client(server: ConnectionInfo, certificates: Option<TlsCertificates>) -> RedisResult<Client> {
    match certificates {
        Some(certificates) => Client::build_with_tls(server, certificates),
        None => Client::open(server),
    }
}

async fn single(client: Client, response: Duration) -> RedisResult<Connection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(response));
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    Ok(Connection::Single(connection.await?))
}

/// The certificates that the context names; none if it names none.
fn certificates(context: &Context) -> Result<Option<TlsCertificates>, Failure> {
    let read = |file: &Option<PathBuf>| match file {
        None => Ok(None),
        Some(path) => std::fs::read(path)
            .map(Some)
            .map_err(|error| Failure::local(path.display(), &error)),
    };
    let root_cert = read(&context.tls_ca)?;
    let own = read(&context.tls_cert)?.zip(read(&context.tls_key)?);
    let client_tls = own.map(|(client_cert, client_key)| ClientTlsConfig {
        client_cert,
        client_key,
    });
    let any = root_cert.is_some() || client_tls.is_some();
    Ok(any.then_some(TlsCertificates {
        client_tls,
        root_cert,
    }))
}
