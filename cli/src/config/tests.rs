use std::path::Path;

use clap::Parser;

use super::*;

/// The server commands' line without its environment.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    config: ConfigArgs,
}

fn load(kind: ServerKind, file: Option<&str>, flags: &[&str]) -> Result<ServerConfig, Failure> {
    let mut args = Line::try_parse_from(std::iter::once("wadi").chain(flags.iter().copied())).unwrap().config;
    let directory = tempfile::tempdir().unwrap();
    if let Some(text) = file {
        let path = directory.path().join("wadi.toml");
        std::fs::write(&path, text).unwrap();
        args.config = Some(path);
    }
    ServerConfig::load(kind, &args)
}

fn error(kind: ServerKind, file: Option<&str>, flags: &[&str]) -> String {
    load(kind, file, flags).unwrap_err().to_string()
}

#[test]
fn dev_needs_nothing_and_stays_on_this_machine() {
    let config = load(ServerKind::Dev, None, &[]).unwrap();
    assert!(config.listen.ip().is_loopback());
    assert_eq!(config.data_dir.as_deref(), Some(Path::new("./wadi-data")));
    assert!(config.object_store_url().unwrap().starts_with("file:///"));
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file = "shards = 8\nlinger = \"20ms\"\nmemory_tail = \"1GiB\"\nlog_format = \"json\"";
    let config = load(ServerKind::Dev, Some(file), &["--linger", "30ms"]).unwrap();
    assert_eq!(config.shards, 8);
    assert_eq!(config.linger, Some(Duration::from_millis(30)));
    assert_eq!(config.memory_tail, ByteSize::mib(1024));
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.lease_ttl, Duration::from_secs(10));
}

#[test]
fn an_object_store_replaces_the_directory_of_dev() {
    let config = load(ServerKind::Dev, None, &["--object-store", "s3://b/p"]).unwrap();
    assert_eq!(config.data_dir, None);
    assert_eq!(config.object_store_url().unwrap(), "s3://b/p");
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    let error = error(ServerKind::Dev, Some("lingr = \"20ms\""), &[]);
    assert!(error.contains("unknown key \"lingr\"; did you mean \"linger\"?"), "{error}");
    assert!(error.contains("wadi.toml"), "{error}");
}

#[test]
fn wrong_values_are_told_with_their_key() {
    let error = error(ServerKind::Dev, Some("shards = \"many\""), &[]);
    assert!(error.contains("\"shards\""), "{error}");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let config =
        load(ServerKind::Gateway, None, &["--object-store", "s3://b/p", "--linger", "30ms"]).unwrap();
    let again = load(ServerKind::Dev, Some(&config.to_toml().unwrap()), &[]).unwrap();
    assert_eq!(again, config);
}

#[test]
fn fields_are_checked_against_each_other() {
    let s3 = ["--object-store", "s3://b/p"];
    let cases: &[(&[&str], &str)] = &[
        (&["--listen", "0.0.0.0:8080"], "--insecure"),
        (&["--data-dir", "/d", "--object-store", "s3://b"], "both given"),
        (&["--object-store", "gs://b"], "not understood"),
        (&["--object-store", "s3://"], "no bucket"),
        (&["--data-dir", "/d", "--s3-region", "eu"], "not S3"),
        (&["--object-store", "s3://b", "--s3-endpoint", "http://h:1"], "--s3-allow-http"),
        (&["--object-store", "s3://b", "--s3-endpoint", "h:1"], "is no URL"),
        (&["--cache-dir", "/c"], "cache_dir is given, but object_store"),
        (&["--object-store", "s3://b", "--cache-dir", "/c", "--cache-disk-bytes", "1MiB"], "from 256MiB"),
        (&["--meta", "etcd"], "etcd_endpoints is empty"),
        (&["--etcd-endpoints", "http://e:2379"], "meta is embedded"),
        (&["--shards", "0"], "from 1 to 4096"),
        (&["--linger", "2s"], "from 0s to 1s"),
        (&["--lease-ttl", "3s"], "from 6s to 2m"),
        (&["--memory-unacked", "1MiB"], "from 64MiB"),
        (&["--auto-partition-check-interval", "0s"], "from 1s to 1day"),
    ];
    for (flags, want) in cases {
        let error = error(ServerKind::Dev, None, flags);
        assert!(error.contains(want), "{flags:?}: {error}");
    }
    assert!(error(ServerKind::Gateway, None, &[]).contains("no object store is named"));
    assert!(load(ServerKind::Gateway, None, &s3).is_ok());
    let open = load(ServerKind::Dev, None, &["--listen", "0.0.0.0:8080", "--insecure"]);
    assert!(open.is_ok());
}

#[test]
fn a_compactor_needs_the_etcd_of_its_gateways() {
    let flags = ["--object-store", "s3://b/p"];
    assert!(error(ServerKind::Compactor, None, &flags).contains("embedded metadata"));
    let etcd = [&flags[..], &["--meta", "etcd", "--etcd-endpoints", "http://e:2379"]].concat();
    let config = load(ServerKind::Compactor, None, &etcd).unwrap();
    assert_eq!(config.listen.port(), 8081);
    let error =
        error(ServerKind::Compactor, None, &[&etcd[..], &["--compact-check-interval", "0s"]].concat());
    assert!(error.contains("compact_check_interval is 0s"), "{error}");
}

#[test]
fn telemetry_goes_nowhere_unless_a_receiver_is_named() {
    let config = load(ServerKind::Dev, None, &[]).unwrap();
    assert_eq!((config.otlp_endpoint, config.trace_sample_ratio), (None, 0.1));
    let file = "otlp_endpoint = \"http://collector:4317\"\ntrace_sample_ratio = 1.0";
    let config = load(ServerKind::Dev, Some(file), &["--trace-sample-ratio", "0"]).unwrap();
    assert_eq!(
        (config.otlp_endpoint.as_deref(), config.trace_sample_ratio),
        (Some("http://collector:4317"), 0.0)
    );
    let wrong = error(ServerKind::Dev, None, &["--otlp-endpoint", "collector:4317"]);
    assert!(wrong.contains("otlp_endpoint \"collector:4317\" is no URL"), "{wrong}");
    for ratio in ["1.5", "-1", "nan"] {
        let wrong = error(ServerKind::Dev, None, &[&format!("--trace-sample-ratio={ratio}")]);
        assert!(wrong.contains("must be from 0 to 1"), "{wrong}");
    }
}
