//! Whether the server would take a write, which it tells modules nowhere in one place.

use std::ffi::CStr;

use super::context::Ctx;
use super::info::ServerInfo;

impl Ctx {
    /// Whether the server refuses every write of a client: too few replicas are in reach (NOREPLICAS),
    /// the last save or append failed (MISCONF), or the cluster is down (CLUSTERDOWN). Not cheap.
    ///
    /// What `INFO` shows as wrong is a refusal only with certain settings. A server whose `CONFIG` was
    /// renamed tells none of them and is taken to have its defaults.
    pub fn refuses_writes(&self) -> bool {
        self.lacks_replicas() || self.failed_to_save() || self.cluster_is_down()
    }

    fn lacks_replicas(&self) -> bool {
        let Some(info) = ServerInfo::read(self, c"replication") else {
            return false;
        };
        // The field is there only if the server asks for a number of replicas.
        let Some(good) = info.number(c"min_slaves_good_slaves") else {
            return false;
        };
        let wanted = self
            .setting(c"min-replicas-to-write")
            .and_then(|wanted| wanted.parse().ok());
        good < wanted.unwrap_or(1)
    }

    fn failed_to_save(&self) -> bool {
        let Some(info) = ServerInfo::read(self, c"persistence") else {
            return false;
        };
        let failed = |field| info.text(field).is_some_and(|status| status != "ok");
        let appends = info.number(c"aof_enabled") == Some(1);
        if appends && failed(c"aof_last_write_status") {
            return true;
        }
        failed(c"rdb_last_bgsave_status")
            && self
                .setting(c"stop-writes-on-bgsave-error")
                .is_none_or(|stops| stops == "yes")
            && self
                .setting(c"save")
                .is_none_or(|points| !points.is_empty())
    }

    fn cluster_is_down(&self) -> bool {
        self.flags().is_cluster()
            && self
                .call(c"CLUSTER", c"INFO", None)
                .and_then(|reply| reply.text())
                .is_some_and(|info| info.contains("cluster_state:fail"))
    }

    /// A setting of the server, where it lets the module read it.
    fn setting(&self, name: &CStr) -> Option<String> {
        // The reply is a list of the name and the value.
        self.call(c"CONFIG", c"GET", Some(name))?.element(1)?.text()
    }
}
