//! `wadi doctor`: is everything there, and does it work?
//!
//! Checks run in order and all of them are told, so that one run shows all there is to mend. The command fails if one
//! check does.

use std::future::Future;

use clap::Args;
use serde::Serialize;
use tokio::time::Instant;
use wadi_client::{Client, ClientError};
use wadi_model::env::Env;
use wadi_store::cluster::{Cluster, MetaKind};
use wadi_store::doctor::{self, Finding};
use wadi_store::identity;
use wadi_store::metadata;
use wadi_store::objects::{self, Objects};

use crate::config::{ConfigArgs, Meta, ServerConfig, ServerKind};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::server::{etcd_tls, s3_options};

/// Check that everything a server needs is there and works.
///
/// With --object-store or --data-dir the object store is examined: each permission, the clock, how long requests take, and whether it
/// creates objects only once, which all safety stands on. With --meta etcd, etcd too, and whether it belongs to the root. Else
/// the server at --url is.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// The outcome of one check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

impl From<Finding> for Check {
    fn from(finding: Finding) -> Check {
        let detail = format!("{} ({} ms)", finding.detail, finding.millis);
        Check { name: finding.check, ok: finding.ok, detail }
    }
}

pub(crate) async fn run(args: DoctorArgs, context: &Context) -> Result<(), Failure> {
    let checks = match ServerConfig::load(ServerKind::Gateway, &args.config) {
        Ok(config) => store_checks(config).await?,
        Err(_) if args.config.names_no_store() => server_checks(&context.client()?).await,
        Err(failure) => return Err(failure),
    };
    report(context, &checks)?;
    match checks.iter().filter(|c| !c.ok).count() {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{failed} of {} checks failed", checks.len()))),
    }
}

async fn store_checks(config: ServerConfig) -> Result<Vec<Check>, Failure> {
    let env = Env::default();
    let opened = objects::open(&config.object_store_url()?, &s3_options(&config), &env);
    let objects = opened.map_err(|e| Failure::new(e.to_string()))?;
    let findings = doctor::examine(objects.store.as_ref(), &objects.root, &env).await;
    let mut checks: Vec<Check> = findings.into_iter().map(Check::from).collect();
    checks.extend(root_checks(&config, &objects, &env).await?);
    Ok(checks)
}

/// What is at the root, and whether the meta store is there and is the root's. Embedded metadata are not opened: that would end
/// the process that has them.
async fn root_checks(config: &ServerConfig, objects: &Objects, env: &Env) -> Result<Vec<Check>, Failure> {
    let (name, found) = ("root", Cluster::read(objects.store.as_ref(), &objects.root).await);
    let cluster = match found {
        Ok(cluster) => cluster,
        Err(error) => return Ok(vec![Check { name, ok: false, detail: error.to_string() }]),
    };
    let detail = match &cluster {
        None => "no cluster yet; the first start makes one".to_owned(),
        Some(found) => {
            let meta = found.meta.as_ref().map_or_else(|| "not named yet".to_owned(), ToString::to_string);
            let Cluster { id, shards, generation, .. } = found;
            format!("cluster {id}, {shards} shards, generation {generation}, metadata {meta}")
        }
    };
    let mut checks = vec![Check { name, ok: true, detail }];
    if config.meta == Meta::Etcd {
        checks.extend(etcd_checks(config, objects, cluster.as_ref(), env).await?);
    } else if let Some(bound) = cluster.and_then(|cluster| cluster.meta)
        && bound.kind != MetaKind::Embedded
    {
        let detail = format!("the root's metadata are in {bound}; give --meta etcd --etcd-endpoints …");
        checks.push(Check { name: "meta store", ok: false, detail });
    }
    Ok(checks)
}

async fn etcd_checks(
    config: &ServerConfig,
    objects: &Objects,
    cluster: Option<&Cluster>,
    env: &Env,
) -> Result<Vec<Check>, Failure> {
    let (endpoints, tls) = (&config.etcd_endpoints, etcd_tls(config)?);
    let connected = metadata::etcd(endpoints, &tls, &format!("doctor-{:032x}", env.unique())).await;
    let own = match connected {
        Ok(own) => own,
        Err(error) => {
            let detail = format!("{} cannot be used: {error}", endpoints.join(", "));
            return Ok(vec![Check { name: "meta store", ok: false, detail }]);
        }
    };
    let findings = doctor::examine_meta(own.as_ref(), config.lease_ttl).await;
    let mut checks: Vec<Check> = findings.into_iter().map(Check::from).collect();
    let Some(cluster) = cluster.filter(|_| checks.iter().all(|check| check.ok)) else { return Ok(checks) };
    let agreed = async {
        let meta = metadata::etcd(endpoints, &tls, &cluster.id).await?;
        identity::agree(meta.as_ref(), MetaKind::Etcd, cluster, objects).await
    };
    let (ok, detail) = match agreed.await {
        Ok(true) => (true, "root and meta store belong together".to_owned()),
        Ok(false) => (true, "root and meta store know each other; the next start binds them".to_owned()),
        Err(error) => (false, error.to_string()),
    };
    checks.push(Check { name: "identity", ok, detail });
    Ok(checks)
}

async fn server_checks(client: &Client) -> Vec<Check> {
    let health = check("server reachable", client.health(), |()| client.url().to_owned()).await;
    if !health.ok {
        return vec![health];
    }
    let ready = check("server ready", client.ready(), |()| "takes reads and writes".to_owned()).await;
    let version = check("version", client.status(), |status| {
        let server = status.get("version").map(output::cell).unwrap_or_else(|| "unknown".to_owned());
        format!("server {server}, this command {}", env!("CARGO_PKG_VERSION"))
    });
    let version = version.await;
    vec![health, ready, version]
}

async fn check<T>(
    name: &'static str,
    work: impl Future<Output = Result<T, ClientError>>,
    describe: impl FnOnce(T) -> String,
) -> Check {
    let begun = Instant::now();
    match work.await {
        Ok(value) => {
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            Check { name, ok: true, detail: format!("{} ({ms:.1} ms)", describe(value)) }
        }
        Err(error) => Check { name, ok: false, detail: Failure::from(error).to_string() },
    }
}

fn report(context: &Context, checks: &[Check]) -> Result<(), Failure> {
    if context.json {
        return output::json(&checks);
    }
    let mut table = output::table(["check", "", "detail"]);
    for check in checks {
        table.add_row([check.name, if check.ok { "ok" } else { "FAILED" }, &check.detail]);
    }
    output::line(table)
}
