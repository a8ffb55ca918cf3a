//! The duty of auto-partition: makes partitions ahead of time and drops old ones, in one gateway of many.
//!
//! Who has the duty looks at all tables every `auto-partition.check.interval`, and when a table was made or changed.
//! The gateway that makes or alters a table makes its first partitions at once ([`prepare`]): that is safe without the
//! duty, since a partition is made only once. Every change of the duty compares its fence, so a gateway that has lost it
//! does nothing more. A table that fails is told in the log and holds up no other.
//!
//! Drops are only marked here: the rows go later, and what a lake has not taken yet must be waited for there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use wadi_meta::catalog::{Catalog, CatalogError};
use wadi_meta::duty::Duty;
use wadi_meta::{Compare, MetaErrorKind, MetaStore, Session};
use wadi_model::Table;
use wadi_model::env::Env;
use wadi_model::partition::AutoPartition;

#[cfg(test)]
mod tests;

/// The name of the duty.
const NAME: &str = "auto-partition";

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long changes of tables are collected before they are looked at.
const SETTLE: Duration = Duration::from_millis(200);

/// What the duty works with.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) meta: Arc<dyn MetaStore>,
    pub(crate) catalog: Catalog,
    pub(crate) env: Env,
    /// Between two looks at all tables.
    pub(crate) interval: Duration,
    /// Time to live of the session in which the duty is held.
    pub(crate) lease_ttl: Duration,
}

/// Makes the partitions that a table should have now. What fails is made later: by the duty, or by a write.
pub(crate) async fn prepare(catalog: &Catalog, table: &Table, now: i64) {
    let Ok(Some(rules)) = AutoPartition::of(table) else { return };
    let names = rules.to_precreate(now, 0);
    if let Err(error) = catalog.ensure_partitions(table, &names, now, None).await {
        tracing::warn!(table = %table.name, %error, "the first partitions were not made");
    }
}

/// Does the duty whenever this process has it, until it is to stop.
pub(crate) async fn serve(around: Surroundings, mut stop: watch::Receiver<bool>) {
    let stopping = async move {
        // A dropped sender means that the server is gone.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::pin!(stopping);
    loop {
        let session = match around.meta.session(around.lease_ttl).await {
            Ok(session) => session,
            Err(error) if matches!(error.kind(), MetaErrorKind::Fenced | MetaErrorKind::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "no session for auto-partition; trying again");
                tokio::select! {
                    biased;
                    () = &mut stopping => return,
                    () = tokio::time::sleep(PAUSE) => continue,
                }
            }
        };
        let stopped = tokio::select! {
            biased;
            () = &mut stopping => true,
            () = session.lost() => false,
            () = serve_in(&around, session.as_ref()) => false,
        };
        // The duty goes with the session.
        if let Err(error) = session.close().await {
            tracing::debug!(%error, "the session of auto-partition did not close cleanly");
        }
        if stopped {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes the duty and does it. Ends when something is wrong with the session.
async fn serve_in(around: &Surroundings, session: &dyn Session) {
    let who = format!("{:032x}", around.env.unique());
    let duty = match Duty::take(around.meta.clone(), session, NAME, &who).await {
        Ok(duty) => duty,
        Err(error) => {
            tracing::debug!(%error, "the duty of auto-partition was not taken");
            return;
        }
    };
    tracing::debug!("this gateway does auto-partition now");
    let mut changes = around.catalog.changes();
    loop {
        changes.borrow_and_update();
        let (seen, tables) = around.catalog.all_tables();
        for table in tables {
            look_at(&around.catalog, &table, around.env.now_millis(), &duty.fence()).await;
        }
        let tables_change = async {
            while around.catalog.tables_changed() == seen {
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            tokio::time::sleep(SETTLE).await;
        };
        // Either way all tables are looked at.
        let _ = tokio::time::timeout(around.interval, tables_change).await;
    }
}

/// Makes what a table needs and drops what is old.
async fn look_at(catalog: &Catalog, table: &Table, now: i64, fence: &Compare) {
    let Ok(Some(rules)) = AutoPartition::of(table) else { return };
    let told = |what: &str, error: CatalogError| {
        tracing::warn!(table = %table.name, %error, "auto-partition could not {what} partitions");
    };
    // First the old ones, which may stand in the way of new ones.
    for partition in catalog.partitions(table.id).iter() {
        if !rules.is_expired(&partition.name, partition.created_at, now) {
            continue;
        }
        match catalog.drop_partition(table, &partition.name, Some(fence)).await {
            Ok(()) => {
                tracing::info!(table = %table.name, partition = partition.name, "dropped: its time is over")
            }
            Err(CatalogError::PartitionNotFound { .. }) => {}
            Err(error) => return told("drop", error),
        }
    }
    let names = rules.to_precreate(now, AutoPartition::jitter(table.id));
    if let Err(error) = catalog.ensure_partitions(table, &names, now, Some(fence)).await {
        told("make", error);
    }
}
