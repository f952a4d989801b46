//! What is installed: `make install`, the Debian packages, and the files for containers.

mod common;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use common::{program, Ended};
use redis_mq_testkit::{module_path, server_bin, workspace_root};

const PROGRAM: &str = env!("CARGO_BIN_EXE_redis-mq");
const MODULE: &str = "/usr/lib/redis/modules/libredis_mq.so";

fn script(name: &str, args: &[&str], env: &[(&str, &Path)]) -> Ended {
    let output = Command::new(workspace_root().join("scripts").join(name))
        .args(args)
        .env("MQ_MODULE", module_path())
        .env("MQ_PROGRAM", PROGRAM)
        .env_remove("PREFIX")
        .env_remove("DESTDIR")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let ended: Ended = output.into();
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}

fn run(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

fn has(tool: &str) -> bool {
    let found = run(Command::new("bash").args(["-c", &format!("command -v {tool}")])).code == 0;
    if !found {
        eprintln!("{tool} is not here: a part of this test is left out");
    }
    found
}

/// All files below a folder, by their paths in it.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(found.insert(path.strip_prefix(root).unwrap().to_owned())),
            }
        }
    }
    found
}

#[test]
fn everything_is_installed_works_and_is_removed_again() {
    let folder = tempfile::tempdir().unwrap();
    let env = [("DESTDIR", folder.path()), ("PREFIX", Path::new("/opt/mq"))];
    script("install.sh", &["install"], &env);
    let root = folder.path().join("opt/mq");
    let there = files(&root);
    for file in [
        "bin/redis-mq",
        "lib/redis/modules/libredis_mq.so",
        "share/man/man1/redis-mq.1",
        "share/man/man1/redis-mq-work.1",
        "share/bash-completion/completions/redis-mq",
        "share/zsh/site-functions/_redis-mq",
        "share/fish/vendor_completions.d/redis-mq.fish",
        "lib/systemd/system/redis-mq-exporter.service",
        "lib/systemd/system/redis-mq-work@.service",
        "share/redis-mq/redis.conf",
        "share/redis-mq/alerts.yml",
        "share/redis-mq/grafana-dashboard.json",
    ] {
        assert!(there.contains(Path::new(file)), "{file} of {there:?}");
        let mode = fs::metadata(root.join(file)).unwrap().permissions().mode();
        let wanted = if file.starts_with("bin") || file.ends_with(".so") {
            0o755
        } else {
            0o644
        };
        assert_eq!(mode & 0o777, wanted, "{file}");
    }
    let version = run(Command::new(root.join("bin/redis-mq")).arg("--version")).ok();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let conf = fs::read_to_string(root.join("share/redis-mq/redis.conf")).unwrap();
    assert!(conf.contains("\nloadmodule /opt/mq/lib/redis/modules/libredis_mq.so "));
    let bash = root.join("share/bash-completion/completions/redis-mq");
    assert_eq!(run(Command::new("bash").arg("-n").arg(bash)).code, 0);
    let other = root.join("bin/other");
    fs::write(&other, "").unwrap();
    script("install.sh", &["uninstall"], &env);
    assert_eq!(files(&root), BTreeSet::from([PathBuf::from("bin/other")]));
}

#[test]
fn the_units_are_sound_hardened_and_start_what_exists() {
    let folder = tempfile::tempdir().unwrap();
    script(
        "install.sh",
        &["install", "tools"],
        &[("DESTDIR", folder.path())],
    );
    let units = folder.path().join("usr/lib/systemd/system");
    for (name, command) in [
        ("redis-mq-exporter.service", "exporter"),
        ("redis-mq-work@.service", "work"),
    ] {
        let text = fs::read_to_string(units.join(name)).unwrap();
        let start = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let mut words = start.unwrap().split(' ');
        let binary = words.next().unwrap().trim_start_matches('/');
        assert!(folder.path().join(binary).is_file(), "{text}");
        assert_eq!(words.next(), Some(command));
        if has("systemd-analyze") {
            let verified = run(Command::new("systemd-analyze")
                .args(["verify", "--man=no", "--root"])
                .arg(folder.path())
                .arg(name.replace('@', "@a")));
            // This root has no units of the system's own.
            let faults = verified
                .err
                .lines()
                .filter(|line| !line.contains("sysinit.target"));
            assert_eq!(faults.collect::<Vec<_>>(), [""; 0]);
            let judged = run(Command::new("systemd-analyze")
                .args(["security", "--offline=true", "--threshold=20"])
                .arg(units.join(name)));
            assert_eq!(judged.code, 0, "{}", judged.out);
        }
    }
}

#[test]
fn the_packages_install_run_as_the_hardened_service_and_go_again() {
    if !has("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (built, root) = (folder.path().join("built"), folder.path().join("root"));
    let quick = [("COMPRESSION", Path::new("none"))];
    script("package.sh", &[built.to_str().unwrap()], &quick);
    let packages: Vec<_> = files(&built)
        .into_iter()
        .map(|file| built.join(file))
        .collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    for package in &packages {
        let listed = run(Command::new("dpkg-deb").arg("--contents").arg(package)).ok();
        assert!(
            listed.lines().all(|line| line.contains(" root/root ")),
            "{listed}"
        );
        assert!(
            !listed.contains("/home") && !listed.contains("/tmp"),
            "{listed}"
        );
    }
    for state in ["lib/dpkg/updates", "lib/dpkg/info", "log"] {
        fs::create_dir_all(root.join("var").join(state)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        let own = [
            "--force-not-root",
            "--force-depends",
            "--force-script-chrootless",
        ];
        let admin = root.join("var/log/dpkg.log");
        command
            .arg("--root")
            .arg(&root)
            .args(own)
            .arg("--log")
            .arg(admin)
            .args(args);
        let ended = run(&mut command);
        assert_eq!(ended.code, 0, "{ended:?}");
    };
    let paths: Vec<_> = packages.iter().map(|path| path.to_str().unwrap()).collect();
    dpkg(&[&["--install"], &*paths].concat());
    let there = files(&root);
    assert!(
        there.contains(Path::new(MODULE.trim_start_matches('/'))),
        "{there:?}"
    );
    assert!(there.contains(Path::new("usr/share/man/man1/redis-mq-work.1.gz")));
    let version = run(Command::new(root.join("usr/bin/redis-mq")).arg("--version")).ok();
    assert!(version.starts_with("redis-mq "), "{version}");
    run_hardened(&root);
    dpkg(&["--purge", "redis-mq-module", "redis-mq-tools"]);
    let left: Vec<_> = files(&root)
        .into_iter()
        .filter(|file| {
            file.to_string_lossy().contains("redis-mq") || file.ends_with("libredis_mq.so")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The module of that root, in a server that may map only what the distribution's service lets it.
fn run_hardened(root: &Path) {
    if run(Command::new("unshare").args(["--mount", "true"])).code != 0 || !has("redis-cli") {
        eprintln!("no mount namespaces here: the module is not run from its package");
        return;
    }
    let hardened = |module: &str| {
        run(Command::new("unshare")
            .args(["--mount", "--propagation", "private"])
            .arg(workspace_root().join("crates/cli/tests/hardened.sh"))
            .arg(root)
            .arg(fs::canonicalize(server_bin()).unwrap())
            .arg(module))
    };
    let ended = hardened(MODULE);
    assert_eq!((ended.code, &*ended.out), (0, "added\n1\n"), "{ended:?}");
    // Elsewhere it would not load, so the place of the package is what counts.
    let local = root.join("usr/local/lib");
    fs::create_dir_all(&local).unwrap();
    fs::copy(root.join(&MODULE[1..]), local.join("redis-mq.so")).unwrap();
    let ended = hardened("/usr/local/lib/redis-mq.so");
    fs::remove_dir_all(root.join("usr/local")).unwrap();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("failed to map segment"), "{ended:?}");
}

#[test]
fn the_files_for_containers_name_what_exists() {
    let root = workspace_root();
    let dockerfile = fs::read_to_string(root.join("Dockerfile")).unwrap();
    let mut targets = BTreeSet::new();
    for line in dockerfile.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["FROM", image, "AS", target] => {
                assert!(image.contains(':'), "{line}");
                targets.insert(target.to_owned());
            }
            ["COPY", ref from @ .., _] if !from[0].starts_with("--from") => {
                assert!(from.iter().all(|path| root.join(path).exists()), "{line}");
            }
            _ => {}
        }
    }
    let packages = ["-p redis-mq ", "-p redis-mq-cli"];
    assert!(packages.iter().all(|package| dockerfile.contains(package)));
    for built in ["target/release/libredis_mq.so", "target/release/redis-mq"] {
        assert!(
            dockerfile.contains(&format!("--from=build /build/{built} ")),
            "{built}"
        );
    }
    let conf = fs::read_to_string(root.join("redis.conf")).unwrap();
    assert!(dockerfile.contains(MODULE) && conf.contains(MODULE));
    check_compose(
        &fs::read_to_string(root.join("compose.yaml")).unwrap(),
        &targets,
    );
}

/// Services, targets and keys are known, and each command line has only options that the program has.
fn check_compose(compose: &str, targets: &BTreeSet<String>) {
    const KEYS: [&str; 11] = [
        "build",
        "volumes",
        "restart",
        "healthcheck",
        "test",
        "interval",
        "command",
        "environment",
        "depends_on",
        "stop_grace_period",
        "ports",
    ];
    let mut services = Vec::new();
    for line in compose
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let indent = line.len() - line.trim_start().len();
        let (key, value) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
        match indent {
            0 => assert!(["services", "volumes"].contains(&key), "{line}"),
            2 => services.push(key.to_owned()),
            4 => assert!(KEYS.contains(&key), "{line}"),
            _ => {}
        }
        if let Some((_, target)) = value.split_once("target: ") {
            assert!(targets.contains(target.trim_end_matches('}')), "{line}");
        }
        if let Some((_, needed)) = line.split_once("depends_on: {") {
            let needed = needed.split(':').next().unwrap();
            assert!(services.iter().any(|service| service == needed), "{line}");
        }
        if key == "command" {
            let words: Vec<String> = serde_json::from_str(value.trim()).unwrap();
            let help = run(program().args([&words[0], "--help"])).ok();
            let own = words.iter().take_while(|word| *word != "--");
            for option in own.filter(|word| word.starts_with("--")) {
                assert!(help.contains(&format!("{option} ")), "{option}: {help}");
            }
        }
    }
    assert_eq!(services, ["server", "worker", "exporter", "web", "data"]);
}
