use super::*;
use crate::memory::MemoryStore;

const TTL: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn one_has_it_and_another_follows() {
    let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let (a, b) = (meta.session(TTL).await.unwrap(), meta.session(TTL).await.unwrap());
    let first = Duty::take(meta.clone(), a.as_ref(), "x", "a").await.unwrap();
    let other = Duty::take(meta.clone(), a.as_ref(), "y", "a").await.unwrap();
    let waiting = Duty::take(meta.clone(), b.as_ref(), "x", "b");
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(TTL * 5, &mut waiting).await.is_err());
    let fence = first.fence();
    a.close().await.unwrap();
    let second = waiting.await.unwrap();
    let under = async |fence: Compare| meta.txn(Txn::new().when(fence).put("k", "v")).await.unwrap();
    assert!(matches!(under(fence).await, TxnOutcome::Refused(_)), "the first can change nothing any more");
    assert!(matches!(under(second.fence()).await, TxnOutcome::Committed(_)));
    assert!(matches!(under(other.fence()).await, TxnOutcome::Refused(_)));
    assert!(Duty::try_take(&meta, b.as_ref(), "x", "c").await.unwrap().is_none(), "it is taken");
    second.give_back().await.unwrap();
    assert!(meta.get("duties/x").await.unwrap().is_none());
    assert!(Duty::try_take(&meta, b.as_ref(), "x", "c").await.unwrap().is_some());
}
