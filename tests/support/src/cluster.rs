//! A cluster on loopback.

use redis::cluster::{ClusterClient, ClusterConnection};

use crate::builder::ServerBuilder;
use crate::call;
use crate::server::{info, Server};
use crate::wait::{wait_until, PATIENCE};
use crate::ReplyExt;

const SLOTS: usize = 16_384;
/// Milliseconds until a silent node counts as down: short, so that failovers in tests are.
const NODE_TIMEOUT: u32 = 2_000;

/// A running cluster: the slots are spread evenly over the primaries, each of which has the same
/// number of replicas. The slots of primary `i` start at `i * 16384 / primaries`, rounded down.
#[derive(Debug)]
pub struct Cluster {
    primaries: Vec<Server>,
    replicas: Vec<Server>,
}

impl Cluster {
    /// Starts `primaries` nodes with `replicas_each` replicas each and waits until all agree.
    #[track_caller]
    pub fn start(primaries: usize, replicas_each: usize) -> Self {
        Self::start_with(primaries, replicas_each, ServerBuilder::new())
    }

    /// [`Self::start`] with these options for every node.
    #[track_caller]
    pub fn start_with(primaries: usize, replicas_each: usize, builder: ServerBuilder) -> Self {
        let node = builder
            .config("cluster-enabled", "yes")
            .config("cluster-config-file", "nodes.conf")
            .config("cluster-node-timeout", NODE_TIMEOUT)
            // A replica may be promoted however long it was cut off.
            .config("cluster-replica-validity-factor", 0);
        let start = |count: usize| (0..count).map(|_| node.clone().start()).collect::<Vec<_>>();
        let cluster = Self {
            primaries: start(primaries),
            replicas: start(primaries * replicas_each),
        };
        cluster.assign_slots();
        cluster.meet();
        cluster.attach_replicas(replicas_each);
        cluster.wait_until_ok();
        cluster
    }

    /// The nodes that started as primaries.
    pub fn primaries(&self) -> &[Server] {
        &self.primaries
    }

    /// One of the nodes that started as primaries, to stop or start it.
    pub fn primary_mut(&mut self, index: usize) -> &mut Server {
        &mut self.primaries[index]
    }

    /// The nodes that started as replicas: replica `i` follows primary `i / replicas_each`.
    pub fn replicas(&self) -> &[Server] {
        &self.replicas
    }

    /// The node that started as the primary of this key's slot.
    pub fn owner(&self, key: impl AsRef<[u8]>) -> &Server {
        let slot = self.slot(key);
        let count = self.primaries.len();
        let index = (0..count)
            .rposition(|index| first_slot(index, count) <= slot)
            .expect("the first primary's slots start at 0");
        &self.primaries[index]
    }

    /// The slot of a key: by its hash tag if it has one.
    #[track_caller]
    pub fn slot(&self, key: impl AsRef<[u8]>) -> usize {
        let slot = call!(self.primaries[0].conn(), "CLUSTER", "KEYSLOT", key.as_ref());
        usize::try_from(slot.expect("the node is in cluster mode").int())
            .expect("a slot is not negative")
    }

    /// A node's name in the cluster.
    #[track_caller]
    pub fn node_id(server: &Server) -> String {
        let id = call!(server.conn(), "CLUSTER", "MYID");
        id.expect("the node is in cluster mode").text()
    }

    /// A connection that follows the slots.
    #[track_caller]
    pub fn conn(&self) -> ClusterConnection {
        let nodes = self.primaries.iter().map(Server::url);
        ClusterClient::new(nodes)
            .and_then(|client| client.get_connection())
            .expect("the cluster answers")
    }

    /// Waits until every running node sees every slot served.
    #[track_caller]
    pub fn wait_until_ok(&self) {
        for server in self.primaries.iter().chain(&self.replicas) {
            let Ok(mut conn) = server.try_conn() else {
                continue;
            };
            wait_until(PATIENCE, || {
                let state = call!(conn, "CLUSTER", "INFO");
                state.is_ok_and(|text| text.text().contains("cluster_state:ok"))
            });
        }
    }

    fn assign_slots(&self) {
        let count = self.primaries.len();
        for (index, server) in self.primaries.iter().enumerate() {
            let slots: Vec<_> = (first_slot(index, count)..first_slot(index + 1, count)).collect();
            let mut conn = server.conn();
            call!(conn, "CLUSTER", "ADDSLOTS", &slots).expect("free slots can be added");
        }
        // Distinct epochs from the start spare the nodes the resolution of a collision.
        for (index, server) in self.primaries.iter().chain(&self.replicas).enumerate() {
            call!(server.conn(), "CLUSTER", "SET-CONFIG-EPOCH", index + 1)
                .expect("a fresh node takes an epoch");
        }
    }

    fn meet(&self) {
        let nodes: Vec<_> = self.primaries.iter().chain(&self.replicas).collect();
        let mut first = nodes[0].conn();
        for node in &nodes[1..] {
            call!(first, "CLUSTER", "MEET", "127.0.0.1", node.port()).expect("nodes can meet");
        }
        for node in &nodes {
            let mut conn = node.conn();
            wait_until(PATIENCE, || {
                let text = call!(conn, "CLUSTER", "NODES")
                    .expect("in cluster mode")
                    .text();
                let known = text.lines().filter(|line| !line.contains("handshake"));
                known.count() == nodes.len()
            });
        }
    }

    fn attach_replicas(&self, replicas_each: usize) {
        for (index, replica) in self.replicas.iter().enumerate() {
            let primary = &self.primaries[index / replicas_each];
            let id = Self::node_id(primary);
            call!(replica.conn(), "CLUSTER", "REPLICATE", id).expect("an empty node can follow");
        }
        for replica in &self.replicas {
            let mut conn = replica.conn();
            wait_until(PATIENCE, || {
                info(&mut conn, "replication", "master_link_status").as_deref() == Some("up")
            });
        }
    }
}

fn first_slot(primary: usize, primaries: usize) -> usize {
    primary * SLOTS / primaries
}
