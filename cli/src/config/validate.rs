//! What must hold between the fields of a configuration.

use std::time::Duration;

use super::{Meta, ServerConfig};
use crate::bytesize::ByteSize;
use crate::failure::Failure;

/// Two full log objects: with less, one large write could never get in beside another.
const LEAST_UNACKED: ByteSize = ByteSize::mib(64);

/// With less, the disk cache would have too few blocks to evict one by one.
const LEAST_DISK: ByteSize = ByteSize::mib(256);

impl ServerConfig {
    /// Checks the fields against each other.
    pub(super) fn validate(&self) -> Result<(), Failure> {
        self.check_address()?;
        self.check_advertised()?;
        self.check_store()?;
        self.check_meta()?;
        self.check_telemetry()?;
        self.check_numbers()
    }

    fn check_address(&self) -> Result<(), Failure> {
        if self.listen.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        let message =
            format!("listen {} is reachable from other machines, and there is no auth", self.listen);
        Err(Failure::usage(message)
            .hint("listen on 127.0.0.1, or give --insecure if the network is your own"))
    }

    /// The address that is told to other gateways must be one.
    fn check_advertised(&self) -> Result<(), Failure> {
        let Some(url) = &self.advertise else { return Ok(()) };
        if self.meta == Meta::Embedded {
            return Err(Failure::usage(
                "advertise is given, but a cluster with embedded metadata has one process",
            ));
        }
        let authority = url.strip_prefix("http://").unwrap_or_default();
        if authority.is_empty() || authority.contains('/') {
            return Err(Failure::usage(format!("advertise \"{url}\" is no URL of a gateway"))
                .hint("write http://<address>:<port>"));
        }
        Ok(())
    }

    fn check_store(&self) -> Result<(), Failure> {
        let url = self.object_store_url()?;
        if self.data_dir.is_some() && self.object_store.is_some() {
            return Err(Failure::usage("data_dir and object_store are both given").hint("keep one of them"));
        }
        let is_s3 = url.starts_with("s3://");
        if !is_s3 && !url.starts_with("file:///") {
            let message = format!("object_store \"{url}\" is not understood");
            return Err(Failure::usage(message).hint("write s3://bucket/prefix or file:///directory"));
        }
        let bucket = url.trim_start_matches("s3://").split('/').next().unwrap_or_default();
        if is_s3 && bucket.is_empty() {
            return Err(Failure::usage(format!("object_store \"{url}\" names no bucket")));
        }
        let s3_only = [
            ("s3_endpoint", self.s3_endpoint.is_some()),
            ("s3_region", self.s3_region.is_some()),
            ("s3_allow_http", self.s3_allow_http),
            // A directory as object store is a local disk already.
            ("cache_dir", self.cache_dir.is_some()),
        ];
        if let Some((name, _)) = s3_only.iter().find(|(_, given)| *given && !is_s3) {
            return Err(Failure::usage(format!("{name} is given, but object_store \"{url}\" is not S3")));
        }
        match &self.s3_endpoint {
            Some(endpoint) if endpoint.starts_with("http://") && !self.s3_allow_http => {
                Err(Failure::usage(format!("s3_endpoint \"{endpoint}\" is without TLS"))
                    .hint("use https, or give --s3-allow-http"))
            }
            Some(endpoint) if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") => {
                Err(Failure::usage(format!("s3_endpoint \"{endpoint}\" is no URL"))
                    .hint("write https://host:port"))
            }
            _ => Ok(()),
        }
    }

    fn check_tls(&self) -> Result<(), Failure> {
        let files =
            [("etcd_ca", &self.etcd_ca), ("etcd_cert", &self.etcd_cert), ("etcd_key", &self.etcd_key)];
        let secure = self.etcd_endpoints.iter().filter(|e| e.starts_with("https://")).count();
        if secure > 0 && secure < self.etcd_endpoints.len() {
            return Err(Failure::usage("some of etcd_endpoints are https and others are not")
                .hint("reach all members in the same way"));
        }
        if let Some((name, _)) = files.iter().find(|(_, file)| file.is_some() && secure == 0) {
            return Err(Failure::usage(format!("{name} is given, but etcd_endpoints are not https")));
        }
        if self.etcd_cert.is_some() != self.etcd_key.is_some() {
            return Err(Failure::usage("etcd_cert and etcd_key must be given together"));
        }
        Ok(())
    }

    fn check_meta(&self) -> Result<(), Failure> {
        self.check_tls()?;
        match (self.meta, self.etcd_endpoints.is_empty()) {
            (Meta::Etcd, true) => Err(Failure::usage("meta is etcd, but etcd_endpoints is empty")
                .hint("give --etcd-endpoints http://host:2379,…")),
            (Meta::Embedded, false) => Err(Failure::usage("etcd_endpoints is given, but meta is embedded")
                .hint("give --meta etcd, or leave the endpoints out")),
            _ => Ok(()),
        }
    }

    fn check_telemetry(&self) -> Result<(), Failure> {
        if !(0.0..=1.0).contains(&self.trace_sample_ratio) {
            let message =
                format!("trace_sample_ratio is {}; it must be from 0 to 1", self.trace_sample_ratio);
            return Err(Failure::usage(message));
        }
        match &self.otlp_endpoint {
            Some(url) if !url.starts_with("http://") && !url.starts_with("https://") => {
                Err(Failure::usage(format!("otlp_endpoint \"{url}\" is no URL"))
                    .hint("write http://host:4317, the address of an OTLP receiver that takes gRPC"))
            }
            _ => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Failure> {
        let outside = |name: &str, value: String, from: &str, to: &str| {
            Err(Failure::usage(format!("{name} is {value}; it must be from {from} to {to}")))
        };
        let time = |t: Duration| humantime::format_duration(t).to_string();
        if !(1..=4096).contains(&self.shards) {
            return outside("shards", self.shards.to_string(), "1", "4096");
        }
        if let Some(linger) = self.linger.filter(|l| *l > Duration::from_secs(1)) {
            return outside("linger", time(linger), "0s", "1s");
        }
        // A log PUT may take 5 s, and must be given up before the lease has run out.
        if !(Duration::from_secs(6)..=Duration::from_secs(120)).contains(&self.lease_ttl) {
            return outside("lease_ttl", time(self.lease_ttl), "6s", "2m");
        }
        let interval = self.auto_partition_check_interval;
        if !(Duration::from_secs(1)..=Duration::from_secs(24 * 3600)).contains(&interval) {
            return outside("auto_partition_check_interval", time(interval), "1s", "1day");
        }
        let looks = self.compact_check_interval;
        if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&looks) {
            return outside("compact_check_interval", time(looks), "1s", "10m");
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(24 * 3600)).contains(&self.pack_interval) {
            return outside("pack_interval", time(self.pack_interval), "1s", "1day");
        }
        if self.deletion_grace > Duration::from_secs(30 * 24 * 3600) {
            return outside("deletion_grace", time(self.deletion_grace), "0s", "30days");
        }
        if self.drop_delay > Duration::from_secs(7 * 24 * 3600) {
            return outside("drop_delay", time(self.drop_delay), "0s", "7days");
        }
        if self.forget_delay > Duration::from_secs(30 * 24 * 3600) {
            return outside("forget_delay", time(self.forget_delay), "0s", "30days");
        }
        if self.cache_dir.is_some() && self.cache_disk_bytes < LEAST_DISK {
            let size = self.cache_disk_bytes.to_string();
            return outside("cache_disk_bytes", size, "256MiB", "what is free on the disk");
        }
        if self.memory_unacked < LEAST_UNACKED {
            return outside(
                "memory_unacked",
                self.memory_unacked.to_string(),
                "64MiB",
                "what the machine has",
            );
        }
        Ok(())
    }
}
