//! `wadi status`.

use clap::Args;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, cell, facts, table};

/// Show the server's version, gateways, shards and owners.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

pub(crate) async fn run(_args: StatusArgs, context: &Context) -> Result<(), Failure> {
    let status = context.client()?.status().await?;
    if context.json { output::json(&status) } else { output::line(told(&status)) }
}

/// The status for people.
fn told(status: &Value) -> String {
    let text = |name: &str| cell(&status[name]);
    let own = text("gateway");
    let mut known = vec![
        ("version", text("version")),
        ("cluster", cell(&status["cluster"]["id"])),
        ("gateway", own.clone()),
        ("ready", text("ready")),
        ("unflushed_bytes", text("unflushed_bytes")),
    ];
    if !status["object_store"].is_null() {
        known.push(("object_store", cell(&status["object_store"])));
    }
    let none = Vec::new();
    let shards = status["shards"].as_array().unwrap_or(&none);
    let owner = |shard: &Value| match shard["open"] == true {
        true => own.clone(),
        false => cell(&shard["owner"]["gateway"]),
    };
    let mut gateways = table(["gateway", "address", "shards", "leaves", "unwell"]);
    for (id, member) in status["gateways"].as_object().into_iter().flatten() {
        let count = shards.iter().filter(|shard| owner(shard) == *id).count();
        gateways.add_row([
            id.clone(),
            cell(&member["address"]),
            count.to_string(),
            cell(&member["leaving"]),
            cell(&member["unwell"]),
        ]);
    }
    let mut all = table(["shard", "state", "owner", "token", "lag", "since", "note"]);
    for shard in shards {
        // What happens to a shard elsewhere is its owner's to tell.
        let elsewhere = !shard["owner"].is_null();
        let state = if elsewhere { "elsewhere".to_owned() } else { cell(&shard["state"]) };
        let note = if elsewhere { String::new() } else { cell(&shard["note"]) };
        let plain = ["token", "lag", "since"].map(|name| cell(&shard[name]));
        all.add_row([vec![cell(&shard["shard"]), state, owner(shard)], plain.to_vec(), vec![note]].concat());
    }
    format!("{}\n\ngateways\n{gateways}\n\nshards\n{all}", facts(&known))
}
