//! What waits to be packed or merged is shown.

use super::*;

#[tokio::test(start_paused = true)]
async fn debt_rises_and_falls_with_what_waits_and_with_the_shards() {
    let mut world = World::new(2);
    let owners = Arc::new(Known::default());
    world.owners = Some(owners.clone());
    let db = world.database().await;
    let (compactor, metrics) = world.compactor().await;
    let (log, level0) = (metrics.log_debt(), metrics.level0_debt());
    until("the shards are taken", async || shards(&[&metrics]) == [2]).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((log.total(), level0.total()), (0, 0));

    owners.0.lock().unpacked = 5_000;
    until("both shards count", async || log.total() == 10_000).await;
    owners.0.lock().unpacked = 300;
    until("less waits", async || log.total() == 600).await;

    // Fewer than are merged.
    file(&db, 1, &[TableId(1)]).await;
    until("a file waits", async || level0.total() > 0).await;
    let one = level0.total();
    file(&db, 2, &[TableId(1)]).await;
    until("two wait", async || level0.total() > one).await;
    let two = level0.total();
    for seq in 3..=5 {
        file(&db, seq, &[TableId(1)]).await;
    }
    until("they are merged", async || world.level0().await < LEVEL0_DUE).await;
    until("and wait no more", async || level0.total() < two).await;

    // What it has given back is another's debt.
    file(&db, 6, &[TableId(1)]).await;
    until("a file waits", async || level0.total() > 0).await;
    compactor.stop().await;
    assert_eq!((log.total(), level0.total()), (0, 0));
}
