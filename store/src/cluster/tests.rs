use object_store::memory::InMemory;

use super::*;

async fn stored(json: &str) -> Result<Option<Cluster>, ClusterError> {
    let (store, root) = (InMemory::new(), Path::from("w"));
    store.put(&Path::from("w/CLUSTER"), json.to_owned().into()).await.unwrap();
    Cluster::read(&store, &root).await
}

#[tokio::test]
async fn the_first_start_decides_the_number_of_shards() {
    let (store, root, env) = (InMemory::new(), Path::from("w"), Env::default());
    let first = Cluster::fresh(4, &env).create(&store, &root).await.unwrap();
    let again = Cluster::fresh(32, &env).create(&store, &root).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(again.shards, 4);
}

#[tokio::test]
async fn a_foreign_object_is_refused() {
    for foreign in ["hello", "{}", r#"{"id":"a","format":0,"shards":1,"generation":1}"#] {
        let error = stored(foreign).await.unwrap_err();
        assert!(matches!(error, ClusterError::Unreadable { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_root_of_a_later_wadi_is_refused_whatever_is_in_it() {
    for later in
        [r#"{"format":2,"id":["not","a","text"]}"#, r#"{"id":"a","format":7,"shards":1,"generation":1}"#]
    {
        let told = stored(later).await.unwrap_err().to_string();
        for part in ["not known here", "knows up to 1: upgrade", crate::versions::WADI, "w/CLUSTER"] {
            assert!(told.contains(part), "{part} is missing in {told}");
        }
    }
}

/// As the first builds have written it: their roots are read.
#[tokio::test]
async fn a_root_that_names_no_meta_store_is_read() {
    let cluster = stored(r#"{"id":"a","format":1,"shards":4,"generation":1}"#).await.unwrap().unwrap();
    assert_eq!((cluster.shards, cluster.meta), (4, None));
}

#[tokio::test]
async fn what_is_replaced_must_be_what_was_read() {
    let (store, root, env) = (InMemory::new(), Path::from("w"), Env::default());
    let first = Cluster::fresh(4, &env).create(&store, &root).await.unwrap();
    let second = first.clone().bound_to(MetaKind::Etcd, &env);
    second.replace(&first, &store, &root).await.unwrap();
    assert_eq!(Cluster::read(&store, &root).await.unwrap().unwrap(), second);
    let third = first.clone().bound_to(MetaKind::Embedded, &env);
    assert!(third.replace(&first, &store, &root).await.is_err());
    assert_eq!(Cluster::read(&store, &root).await.unwrap().unwrap(), second);
}

#[test]
fn tokens_grow_with_generation_and_revision() {
    let cluster = |generation| Cluster { generation, ..Cluster::fresh(1, &Env::default()) };
    assert!(cluster(1).token(Revision(2)) > cluster(1).token(Revision(1)));
    assert!(cluster(2).token(Revision(1)) > cluster(1).token(Revision(1 << 47)));
    assert_eq!(cluster(1).next_generation(), Some(2));
    assert_eq!(cluster(MOST_GENERATIONS - 1).next_generation(), None);
}
