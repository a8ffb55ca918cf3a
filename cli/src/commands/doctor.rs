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

use crate::config::{ConfigArgs, ServerConfig, ServerKind};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::server::gateway_config;

/// Check that everything a server needs is there and works.
///
/// With --object-store or --data-dir the object store is examined: whether it creates objects only once, which all
/// safety stands on. Else the server at --url is.
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
    let config = gateway_config(config)?;
    let env = Env::default();
    let opened = wadi_store::objects::open(&config.object_store, &config.s3, &env);
    let objects = opened.map_err(|e| Failure::new(e.to_string()))?;
    let findings = wadi_store::doctor::examine(objects.store.as_ref(), &objects.root, &env).await;
    let check = |f: wadi_store::doctor::Finding| Check {
        name: f.check,
        ok: f.ok,
        detail: format!("{} ({} ms)", f.detail, f.millis),
    };
    Ok(findings.into_iter().map(check).collect())
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
