//! One process at a time uses a directory, or an S3 root with embedded metadata; clusters that share etcd are apart.

use http::Method;
use serde_json::json;

use crate::harness::{NDJSON, Setup, send};
use crate::load::check_refusal;
use crate::peers::{CREDENTIALS, Peer};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_dev_is_refused_until_the_first_is_dead() {
    let setup = Setup::dev();
    let mut first = setup.ready().await;
    first.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "int" }]);
    let table = first.api.create_table(&json!({ "name": "one", "columns": columns })).await;

    let second = Setup::dev_on(&setup.data());
    assert_eq!(second.spawn().ends().await, 1, "{}", second.log());
    let message = second.log();
    let (data, pid) = (setup.data().display().to_string(), format!("pid {}", first.process.pid()));
    for part in ["error: ", &data, &pid, "in use by another process"] {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }

    first.api.post(&format!("{table}/append"), NDJSON, "{\"a\":1}\n").await.expect(200);
    first.process.kill();
    let second = second.ready().await;
    assert_eq!(second.api.scan(&table, "").await, [json!({ "a": 1 })]);
    second.api.post(&format!("{table}/append"), NDJSON, "{\"a\":2}\n").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_s3_the_later_start_wins_and_the_earlier_one_ends_and_says_why() {
    let s3 = Peer::ministack().await;
    let flags = format!("{} --shards 2 --lease-ttl 6s", s3.s3_flags("one"));
    let [first, second] = [(); 2].map(|()| Setup::gateway(&flags).env(&CREDENTIALS));
    let mut earlier = first.ready().await;
    earlier.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "int" }]);
    let table = earlier.api.create_table(&json!({ "name": "one", "columns": columns })).await;
    let append = format!("{table}/append");
    earlier.api.post(&append, NDJSON, "{\"a\":1}\n").await.expect(200);

    let later = second.ready().await;
    later.api.post(&append, NDJSON, "{\"a\":2}\n").await.expect(200);
    // It learns it at the latest when it wants to ack something.
    let late = earlier.api.request(Method::POST, &append).header("content-type", NDJSON).body("{\"a\":3}\n");
    if let Ok(answer) = send(late).await {
        check_refusal(&answer);
    }
    assert_eq!(earlier.process.ends().await, 1, "{}", first.log());
    let message = first.log();
    for part in ["error: ", "another process has taken over", "--meta etcd"] {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }
    assert_eq!(later.api.scan(&table, "").await, [json!({ "a": 1 }), json!({ "a": 2 })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_share_etcd_do_not_see_each_other() {
    let etcd = Peer::etcd().await;
    let [one, two] = [(); 2].map(|()| {
        let setup = Setup::gateway(&format!("--meta etcd --etcd-endpoints {} --shards 2", etcd.url()));
        let store = format!("file://{}", setup.data().display());
        setup.args(&["--object-store", &store])
    });
    let (one, two) = (one.into_ready().await, two.into_ready().await);
    for (server, a) in [(&one, 1), (&two, 2)] {
        server.api.create_database().await;
        let columns = json!([{ "name": "a", "type": "int" }]);
        let table = server.api.create_table(&json!({ "name": "same", "columns": columns })).await;
        server.api.post(&format!("{table}/append"), NDJSON, json!({ "a": a }).to_string()).await.expect(200);
        assert_eq!(server.api.scan(&table, "").await, [json!({ "a": a })]);
    }
}
