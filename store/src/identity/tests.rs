use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use wadi_meta::memory::MemoryStore;

use super::*;
use crate::metadata;
use crate::objects::Health;

fn root(store: &Arc<InMemory>, name: &str) -> Objects {
    Objects {
        store: store.clone(),
        root: Path::from(name),
        url: format!("s3://bucket/{name}"),
        directory: None,
        health: Health::default(),
    }
}

fn fresh() -> Cluster {
    Cluster::fresh(4, &Env::default()).bound_to(MetaKind::Etcd, &Env::default())
}

async fn start(meta: &MemoryStore, objects: &Objects) -> Result<Cluster, MetadataError> {
    let cluster = Cluster::read(objects.store.as_ref(), &objects.root).await?.unwrap();
    check(meta, MetaKind::Etcd, cluster, objects, &Env::default()).await
}

#[tokio::test]
async fn who_made_a_root_starts_again_and_another_meta_store_does_not() {
    let objects = root(&Arc::default(), "w");
    let (ours, theirs) = (MemoryStore::new(), MemoryStore::new());
    let made = found(&ours, &fresh(), &objects).await.unwrap().unwrap();
    assert_eq!(start(&ours, &objects).await.unwrap(), made);

    let told = start(&theirs, &objects).await.unwrap_err().to_string();
    let bound = made.meta.clone().unwrap().to_string();
    for part in ["s3://bucket/w", &made.id, &bound, "knows nothing of it"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    // One that knows the cluster by another name is no better.
    let other = Cluster { meta: fresh().meta, ..made.clone() };
    write(&theirs, &other, &objects.url).await.unwrap();
    let told = start(&theirs, &objects).await.unwrap_err().to_string();
    for part in ["s3://bucket/w", &made.id, &bound, &other.meta.unwrap().id] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
}

#[tokio::test]
async fn of_two_that_make_a_root_at_once_one_wins_and_the_other_leaves_nothing() {
    let objects = root(&Arc::default(), "w");
    let (one, two) = (MemoryStore::new(), MemoryStore::new());
    let (a, b) = (fresh(), fresh());
    let (first, second) = tokio::join!(found(&one, &a, &objects), found(&two, &b, &objects));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.is_some() != second.is_some(), "{first:?} {second:?}");
    let loser = if first.is_some() { &two } else { &one };
    assert_eq!(read(loser).await.unwrap(), None);
    assert!(start(loser, &objects).await.is_err());
}

/// Between its two steps: the meta store is named already, and the root is not.
#[tokio::test]
async fn a_start_that_was_cut_off_is_begun_anew() {
    let objects = root(&Arc::default(), "w");
    write(&MemoryStore::new(), &fresh(), &objects.url).await.unwrap();
    // Nothing names that one: the keys of the next start stand below another id.
    check_empty(&objects).await.unwrap();
    let next = MemoryStore::new();
    assert!(found(&next, &fresh(), &objects).await.unwrap().is_some());
    start(&next, &objects).await.unwrap();
}

#[tokio::test]
async fn a_copy_of_a_root_is_refused_by_the_meta_store_of_the_first() {
    let store = Arc::default();
    let (first, copy, meta) = (root(&store, "w"), root(&store, "copy"), MemoryStore::new());
    let made = found(&meta, &fresh(), &first).await.unwrap().unwrap();
    assert_eq!(made.create(copy.store.as_ref(), &copy.root).await.unwrap(), made);
    let told = start(&meta, &copy).await.unwrap_err().to_string();
    for part in ["s3://bucket/w", "s3://bucket/copy", &made.id, "wadi admin adopt"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    start(&meta, &first).await.unwrap();
}

#[tokio::test]
async fn a_root_of_the_first_days_is_bound_to_the_meta_store_that_knows_it() {
    let objects = root(&Arc::default(), "w");
    let (ours, theirs) = (MemoryStore::new(), MemoryStore::new());
    let old = Cluster::fresh(4, &Env::default());
    old.create(objects.store.as_ref(), &objects.root).await.unwrap();
    ours.txn(Txn::new().put("cluster/secret", "s")).await.unwrap();
    assert!(start(&theirs, &objects).await.is_err(), "it may be another's");
    let bound = start(&ours, &objects).await.unwrap();
    assert!(bound.meta.is_some());
    assert_eq!(start(&ours, &objects).await.unwrap(), bound);
    assert!(start(&theirs, &objects).await.is_err());
}

/// The meta store is named and the root is not yet.
#[tokio::test]
async fn a_binding_that_was_cut_off_goes_on() {
    let objects = root(&Arc::default(), "w");
    let (meta, old) = (MemoryStore::new(), Cluster::fresh(4, &Env::default()));
    old.create(objects.store.as_ref(), &objects.root).await.unwrap();
    let bound = old.bound_to(MetaKind::Etcd, &Env::default());
    write(&meta, &bound, &objects.url).await.unwrap();
    assert_eq!(start(&meta, &objects).await.unwrap(), bound);
}

#[tokio::test]
async fn a_root_whose_description_is_gone_is_not_made_anew() {
    let store = Arc::new(InMemory::new());
    let objects = root(&store, "w");
    store.put(&Path::from("w/shard/3/log/00000000000000000001"), "x".into()).await.unwrap();
    let told = check_empty(&objects).await.unwrap_err().to_string();
    assert!(told.contains("CLUSTER is missing") && told.contains("s3://bucket/w"), "{told}");
    // What lies beside it is no concern.
    check_empty(&root(&store, "w2")).await.unwrap();
}

async fn open_embedded(objects: &Objects) -> Result<metadata::Opened, MetadataError> {
    metadata::open(&metadata::MetaConfig::Embedded, objects, 2, &Env::default()).await
}

async fn delete_below(objects: &Objects, below: &str) {
    use futures::TryStreamExt;
    let path = objects.root.clone().join(below);
    let all: Vec<_> = objects.store.list(Some(&path)).try_collect().await.unwrap();
    for object in all {
        objects.store.delete(&object.location).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn embedded_metadata_belongs_to_its_root() {
    let objects = root(&Arc::default(), "w");
    let (meta, made) = open_embedded(&objects).await.unwrap();
    meta.txn(Txn::new().put("cluster/secret", "s")).await.unwrap();
    meta.close().await.unwrap();
    let (meta, again) = open_embedded(&objects).await.unwrap();
    assert_eq!(again, made);
    meta.close().await.unwrap();

    // The description is lost.
    let description = Path::from("w/CLUSTER");
    let kept = objects.store.get(&description).await.unwrap().bytes().await.unwrap();
    objects.store.delete(&description).await.unwrap();
    let told = open_embedded(&objects).await.unwrap_err().to_string();
    assert!(told.contains("has metadata of a cluster, but the object CLUSTER is missing"), "{told}");
    objects.store.put(&description, kept.into()).await.unwrap();

    // The metadata are lost.
    delete_below(&objects, "meta").await;
    let told = open_embedded(&objects).await.unwrap_err().to_string();
    assert!(told.contains("and with it the tables"), "{told}");
    assert!(!holds(&objects, "meta").await.unwrap(), "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn a_root_with_metadata_in_etcd_is_not_started_with_embedded_metadata() {
    let objects = root(&Arc::default(), "w");
    let made = found(&MemoryStore::new(), &fresh(), &objects).await.unwrap().unwrap();
    let told = open_embedded(&objects).await.unwrap_err().to_string();
    for part in ["s3://bucket/w", &made.id, "etcd", "embedded"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    assert!(!holds(&objects, "meta").await.unwrap(), "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn an_embedded_start_that_was_cut_off_is_begun_anew() {
    let objects = root(&Arc::default(), "w");
    let meta = metadata::embedded(&objects).await.unwrap();
    write(meta.as_ref(), &fresh(), &objects.url).await.unwrap();
    meta.close().await.unwrap();
    let (_, made) = open_embedded(&objects).await.unwrap();
    assert_eq!(made.meta.unwrap().kind, MetaKind::Embedded);
}

#[tokio::test(start_paused = true)]
async fn a_root_moves_from_embedded_metadata_to_etcd() {
    let (objects, env) = (root(&Arc::default(), "w"), Env::default());
    let (meta, made) = open_embedded(&objects).await.unwrap();
    let keys: Vec<String> = (0..200).map(|n| format!("catalog/tables/t.{n}")).collect();
    for key in &keys {
        meta.txn(Txn::new().put(key, vec![7; 9_000])).await.unwrap();
    }
    meta.txn(Txn::new().put("sweeps/0", "77")).await.unwrap();
    let session = meta.session(std::time::Duration::from_secs(10)).await.unwrap();
    meta.txn(Txn::new().put_in(session.id(), "shards/0/owner", "me")).await.unwrap();
    meta.close().await.unwrap();

    let etcd = MemoryStore::new();
    // What an earlier try has left.
    etcd.txn(Txn::new().put("catalog/tables/t.gone", "x")).await.unwrap();
    let adopted = adopt(&objects, &etcd, &env).await.unwrap();
    assert_eq!((&adopted.before, adopted.now.generation), (&made, 2));
    assert_eq!((&adopted.now.id, adopted.now.shards), (&made.id, made.shards));
    let mut found: Vec<String> =
        etcd.list("").await.unwrap().entries.into_iter().map(|entry| entry.key).collect();
    found.retain(|key| key != KEY);
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(found, keys, "no session, no sweeps, nothing old");
    assert_eq!(start(&etcd, &objects).await.unwrap(), adopted.now);
    assert!(open_embedded(&objects).await.is_err());
}

#[tokio::test]
async fn a_moved_root_is_adopted_and_an_empty_meta_store_is_not() {
    let (store, env) = (Arc::default(), Env::default());
    let (first, second, meta) = (root(&store, "w"), root(&store, "moved"), MemoryStore::new());
    let made = found(&meta, &fresh(), &first).await.unwrap().unwrap();
    let told = adopt(&first, &MemoryStore::new(), &env).await.unwrap_err().to_string();
    assert!(told.contains("knows nothing of the cluster") && told.contains("s3://bucket/w"), "{told}");
    assert_eq!(start(&meta, &first).await.unwrap(), made, "nothing was changed");

    made.create(second.store.as_ref(), &second.root).await.unwrap();
    let adopted = adopt(&second, &meta, &env).await.unwrap();
    assert_eq!((adopted.copied, adopted.now.generation), (0, 2));
    assert_eq!(start(&meta, &second).await.unwrap(), adopted.now);
    assert!(start(&meta, &first).await.is_err(), "the place before is no root any more");
}
