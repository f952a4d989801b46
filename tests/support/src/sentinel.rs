//! Sentinels that watch a primary.

use std::net::SocketAddr;

use crate::builder::ServerBuilder;
use crate::call;
use crate::server::Server;
use crate::wait::{wait_until, PATIENCE};
use crate::{Reply, ReplyExt};

/// Milliseconds until a silent primary counts as down: short, so that failovers in tests are.
const DOWN_AFTER: u32 = 1_000;
const FAILOVER_TIMEOUT: u32 = 5_000;

/// A group of sentinels that watch one primary, under the name [`Sentinels::NAME`].
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// The name the primary is watched under.
    pub const NAME: &'static str = "mq";

    /// Starts `count` sentinels for `primary` and waits until they know each other and `replicas`
    /// replicas. More than half of them must agree to a failover.
    #[track_caller]
    pub fn start(count: usize, primary: &Server, replicas: usize) -> Self {
        let name = Self::NAME;
        let quorum = count / 2 + 1;
        let watch = format!("monitor {name} 127.0.0.1 {} {quorum}", primary.port());
        let sentinels = (0..count)
            .map(|_| {
                ServerBuilder::sentinel()
                    .config("sentinel", &watch)
                    .config(
                        "sentinel",
                        format!("down-after-milliseconds {name} {DOWN_AFTER}"),
                    )
                    .config(
                        "sentinel",
                        format!("failover-timeout {name} {FAILOVER_TIMEOUT}"),
                    )
                    .start()
            })
            .collect();
        let group = Self { sentinels };
        for sentinel in &group.sentinels {
            wait_until(PATIENCE, || {
                let reply = call!(sentinel.conn(), "SENTINEL", "MASTER", name);
                let Ok(state) = reply.map(|state| state.fields()) else {
                    return false;
                };
                let number = |field: &str| state.get(field).map(ReplyExt::text);
                number("num-other-sentinels") == Some((count - 1).to_string())
                    && number("num-slaves") == Some(replicas.to_string())
            });
        }
        group
    }

    /// The sentinels.
    pub fn servers(&self) -> &[Server] {
        &self.sentinels
    }

    /// The primary's address, as the first sentinel has it.
    #[track_caller]
    pub fn primary(&self) -> SocketAddr {
        let mut conn = self.sentinels[0].conn();
        let reply = call!(conn, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME);
        let reply = reply.expect("the primary is watched");
        let [host, port] = reply.items() else {
            panic!("not an address: {reply:?}");
        };
        format!("{}:{}", host.text(), port.text())
            .parse()
            .expect("the kit's servers have numeric addresses")
    }

    /// Asks for a failover even though the primary is well.
    pub fn failover(&self) -> Reply {
        call!(self.sentinels[0].conn(), "SENTINEL", "FAILOVER", Self::NAME)
    }

    /// Waits until all sentinels have another primary than `old`, and gives its address.
    #[track_caller]
    pub fn wait_for_failover(&self, old: &Server) -> SocketAddr {
        for sentinel in &self.sentinels {
            let mut conn = sentinel.conn();
            wait_until(PATIENCE, || {
                let reply = call!(conn, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME);
                reply.is_ok_and(|addr| addr.items()[1].text() != old.port().to_string())
            });
        }
        self.primary()
    }
}
