//! Looking for queues.

use redis_mq_client::redis::{self, Value};

use super::{Connection, Server};
use crate::{failure::Failure, reply};

/// The type of the queues' keys.
const KEY_TYPE: &str = "mq-circle";

/// A search for queues, one command at a time.
pub struct Search {
    pattern: Option<String>,
    /// Where it still has to look; none before the first step in a cluster.
    nodes: Option<Vec<Option<(String, u16)>>>,
    cursor: String,
}

impl Search {
    /// From the beginning, for all queues or those that match the pattern.
    pub fn new(pattern: Option<&str>) -> Self {
        Self {
            pattern: pattern.map(Into::into),
            nodes: None,
            cursor: "0".into(),
        }
    }

    /// Whether all was looked at.
    pub fn is_over(&self) -> bool {
        self.nodes.as_ref().is_some_and(Vec::is_empty)
    }

    /// Looks at some more keys, about a thousand; some queues may come twice.
    pub async fn step(&mut self, server: &mut Server) -> Result<Vec<Vec<u8>>, Failure> {
        let nodes = match &mut self.nodes {
            Some(nodes) => nodes,
            None => {
                let nodes = self.nodes.insert(server.nodes().await?);
                if matches!(server.connection, Connection::Cluster(_)) {
                    return Ok(Vec::new());
                }
                nodes
            }
        };
        let Some(node) = nodes.last() else {
            return Ok(Vec::new());
        };
        let mut scan = redis::cmd("SCAN");
        scan.arg(&self.cursor).arg("COUNT").arg(1_000);
        if let Some(pattern) = &self.pattern {
            scan.arg("MATCH").arg(pattern);
        }
        scan.arg("TYPE").arg(KEY_TYPE);
        let page = server.call_node(scan, node.as_ref()).await?;
        let (next, names) = page_of(&page).ok_or_else(|| Failure::unexpected("SCAN"))?;
        if next == "0" {
            nodes.pop();
        }
        self.cursor = next;
        let names = names.iter().filter_map(reply::bytes);
        Ok(names.map(<[u8]>::to_vec).collect())
    }
}

/// The next cursor and the elements of one page of SCAN.
fn page_of(page: &Value) -> Option<(String, &[Value])> {
    let [cursor, names] = reply::items(page)? else {
        return None;
    };
    Some((reply::text(cursor)?, reply::items(names)?))
}
