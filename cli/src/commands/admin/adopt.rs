//! `wadi admin adopt`: a root goes to another meta store, or a meta store to another root.

use clap::Args;
use serde_json::json;
use wadi_model::env::Env;
use wadi_store::cluster::Cluster;
use wadi_store::identity;
use wadi_store::metadata::{self, MetadataError};

use crate::args::boolish;
use crate::config::{ConfigArgs, Meta, ServerConfig, ServerKind};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::server::{etcd_tls, s3_options};

/// Give a root to the etcd named here, after one of the two was moved.
///
/// A root and its meta store know each other, and a server does not start with one that is another's. This makes them know
/// each other anew, in three cases: the root has embedded metadata and is to go on with etcd (they are copied); the keys of its etcd were
/// brought to another etcd; the root's objects were brought to another place.
///
/// Stop all gateways and compactors of the cluster first. Whether one still runs cannot be known from here. It would lose its shards to
/// the new side one by one, since the new side's fencing tokens are higher, and acked rows stay; but changes to databases and tables that it
/// makes meanwhile are lost.
///
/// If etcd is lost, with no copy of its keys, this does not help: databases and tables stand there alone.
#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// All gateways and compactors of the cluster are stopped: needed, as nobody else can know.
    #[arg(long, env = "WADI_ALL_STOPPED", value_parser = boolish())]
    all_stopped: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) async fn run(args: AdoptArgs, context: &Context) -> Result<(), Failure> {
    let config = ServerConfig::load(ServerKind::Gateway, &args.config)?;
    if config.meta != Meta::Etcd {
        return Err(Failure::usage("the meta store that the root is to belong to must be etcd").hint(
            "give --meta etcd --etcd-endpoints …; embedded metadata move with their root and need nothing",
        ));
    }
    if !args.all_stopped {
        return Err(Failure::usage("a cluster is moved while it stands still")
            .hint("stop all its gateways and compactors, and then say so with --all-stopped"));
    }
    let failed = |e: MetadataError| Failure::new(e.to_string());
    let env = Env::default();
    let url = config.object_store_url()?;
    let opened = wadi_store::objects::open(&url, &s3_options(&config), &env);
    let objects = opened.map_err(|e| Failure::new(e.to_string()))?;
    let found = Cluster::read(objects.store.as_ref(), &objects.root).await;
    let found = found.map_err(|e| failed(e.into()))?;
    let found = found.ok_or_else(|| Failure::new(format!("there is no cluster at {}", objects.url)))?;
    let meta = metadata::etcd(&config.etcd_endpoints, &etcd_tls(&config)?, &found.id).await;
    let meta = meta.map_err(|e| failed(e.into()))?;
    let adopted = identity::adopt(&objects, meta.as_ref(), &env).await.map_err(failed)?;
    if context.json {
        return output::json(&json!({
            "root": objects.url, "before": adopted.before, "now": adopted.now, "copied_keys": adopted.copied
        }));
    }
    let name =
        |cluster: &Cluster| cluster.meta.as_ref().map_or_else(|| "none".to_owned(), |meta| meta.to_string());
    output::line(output::facts(&[
        ("root", objects.url.clone()),
        ("cluster", adopted.now.id.clone()),
        ("generation", format!("{} (was {})", adopted.now.generation, adopted.before.generation)),
        ("meta store", format!("{} (was {})", name(&adopted.now), name(&adopted.before))),
        ("copied keys", adopted.copied.to_string()),
    ]))
}
