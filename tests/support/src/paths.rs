//! Where the server, its command line client and the module are.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn workspace_root() -> PathBuf {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR"));
    kit.ancestors()
        .nth(2)
        .expect("the kit is two folders below the root of the repository")
        .to_path_buf()
}

/// The server to test: `MQ_SERVER_BIN`, else `redis-server` in the `PATH`, else the one that
/// `scripts/setup.sh` put into `.deps/bin`.
///
/// # Panics
///
/// If there is none.
pub fn server_bin() -> PathBuf {
    if let Some(bin) = env::var_os("MQ_SERVER_BIN").filter(|bin| !bin.is_empty()) {
        return from_root(PathBuf::from(bin));
    }
    in_path("redis-server")
        .or_else(|| existing(workspace_root().join(".deps/bin/redis-server")))
        .expect("no redis-server in the PATH: run scripts/setup.sh, or set MQ_SERVER_BIN")
}

/// The command line client: the one beside the server if there is one, else `redis-cli` in the
/// `PATH` or in `.deps/bin`.
pub fn cli_bin() -> Option<PathBuf> {
    let server = server_bin();
    let beside = server.parent().and_then(|folder| {
        ["cli", "redis-cli", "valkey-cli"]
            .iter()
            .find_map(|name| existing(folder.join(name)))
    });
    beside
        .or_else(|| in_path("redis-cli"))
        .or_else(|| existing(workspace_root().join(".deps/bin/redis-cli")))
}

/// The module to load: `MQ_MODULE`, else `libredis_mq.so` of the build that the running program
/// belongs to.
///
/// # Panics
///
/// If there is none.
pub fn module_path() -> PathBuf {
    if let Some(module) = env::var_os("MQ_MODULE").filter(|module| !module.is_empty()) {
        return from_root(PathBuf::from(module));
    }
    let exe = env::current_exe().expect("the running program has a path");
    // A test runs in <target>/<profile>/deps, where cargo also leaves a library that was built only
    // for it; `cargo build` puts it one folder up. The newest is the one that was just built.
    exe.ancestors()
        .skip(1)
        .take(3)
        .flat_map(|folder| [folder.to_path_buf(), folder.join("deps")])
        .filter_map(|folder| existing(folder.join("libredis_mq.so")))
        .max_by_key(|module| module.metadata().and_then(|data| data.modified()).ok())
        .unwrap_or_else(|| {
            panic!(
                "no libredis_mq.so near {}: run cargo build, or set MQ_MODULE",
                exe.display()
            )
        })
}

/// Tests run in their package's folder, so a relative path in a variable means the root.
fn from_root(path: PathBuf) -> PathBuf {
    if path.components().count() == 1 {
        if let Some(found) = in_path(path.as_os_str()) {
            return found;
        }
    }
    workspace_root().join(path)
}

fn in_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|folder| existing(folder.join(&name)))
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
