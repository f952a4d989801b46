//! Where the server, its command line client and the module are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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

/// Prometheus' promtool: in the `PATH`, or where `scripts/promtool.sh` put it.
///
/// # Panics
///
/// If there is none.
pub fn promtool_bin() -> PathBuf {
    in_path("promtool")
        .or_else(|| existing(workspace_root().join(".deps/bin/promtool")))
        .expect("no promtool: run scripts/promtool.sh")
}

/// The module to load: `MQ_MODULE`, else the one that `cargo build` makes of the sources as they are,
/// in the build folder and the profile of the running program.
///
/// # Panics
///
/// If it cannot be built.
pub fn module_path() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    match env::var_os("MQ_MODULE").filter(|module| !module.is_empty()) {
        Some(module) => from_root(PathBuf::from(module)),
        None => BUILT.get_or_init(build_module).clone(),
    }
}

/// Cargo does not build a library for tests that cannot link it, so without this a test would run
/// against whatever was built last.
fn build_module() -> PathBuf {
    let exe = env::current_exe().expect("the running program has a path");
    // Tests and benchmarks run in <target>/<profile>/deps, examples in <target>/<profile>/examples.
    let (folder, target) = exe
        .ancestors()
        .nth(2)
        .and_then(|folder| Some((folder, folder.parent()?)))
        .expect("cargo runs programs from its build folder; elsewhere set MQ_MODULE");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "redis-mq", "--lib"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(workspace_root())
        .output()
        .expect("cargo can be run; elsewhere set MQ_MODULE");
    assert!(
        output.status.success(),
        "the module cannot be built:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join("libredis_mq.so")
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
