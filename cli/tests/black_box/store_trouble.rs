//! An object store that refuses: one that has become read-only, and credentials that expire and are replaced. Nothing acked is lost, clients
//! are told what is wrong, it ends by itself, and no secret is told to anybody.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures::future::{join, join_all};
use http::{Method, StatusCode};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::gate::{gate, s3_error, serve};
use crate::harness::{Server, Setup};
use crate::load::{Load, Write, check, check_refusal, create_tables};
use crate::peers::{CREDENTIALS, Peer, s3_flags};

const SEED: u64 = 403;

/// Much longer than the budget of a PUT.
const READ_ONLY: Duration = Duration::from_secs(25);

/// V1.
const ACKS_AGAIN: Duration = Duration::from_secs(10);

/// Stands in an answer of the store, and nowhere else.
const SECRET: &str = "the-session-token-of-nobody";

/// Refuses every change while `refusing` says so, with a secret in its answer as S3 has it.
async fn read_only_gate(s3: &Peer, refusing: Arc<AtomicBool>) -> String {
    gate(s3.url(), move |parts| {
        let changes = [Method::PUT, Method::POST, Method::DELETE].contains(&parts.method);
        let refuses = changes && refusing.load(Ordering::SeqCst);
        refuses.then(|| {
            let secret = format!("<Token-0>{SECRET}</Token-0>");
            s3_error(StatusCode::FORBIDDEN, "AccessDenied", &secret)
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_becomes_read_only_loses_nothing_and_is_named() {
    let (s3, etcd) = (Peer::seaweedfs().await, Peer::etcd().await);
    let etcd_flags = format!(" --meta etcd --etcd-endpoints {}", etcd.url());
    join(survive(&s3, "embedded", ""), survive(&s3, "etcd", &etcd_flags)).await;
}

async fn survive(s3: &Peer, prefix: &str, flags: &str) {
    let refusing = Arc::new(AtomicBool::new(false));
    let gate = read_only_gate(s3, refusing.clone()).await;
    let setup = Setup::gateway(&format!("{} --shards 4 --lease-ttl 6s{flags}", s3_flags(&gate, prefix)));
    let setup = setup.env(&CREDENTIALS);
    let server = setup.ready().await;
    let tables = create_tables(&server.api, 2).await;
    let urls = watch::Sender::new(server.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load::stubborn(urls.subscribe(), &stop);
    let producers = ["a", "b", "c", "d"].into_iter().enumerate();
    let producers = producers.map(|(n, name)| load.produce(&tables[n % 2], name, SEED + n as u64));
    let weather = async {
        sleep(Duration::from_secs(2)).await;
        refusing.store(true, Ordering::SeqCst);
        let meanwhile = while_read_only(&server, &tables).await;
        refusing.store(false, Ordering::SeqCst);
        let writable = Instant::now();
        let mut random = StdRng::seed_from_u64(SEED);
        let mut fresh: Vec<Write> =
            tables.iter().map(|table| Write::new(table, "fresh", 0, &mut random)).collect();
        join_all(fresh.iter_mut().map(|write| write.complete(&server.api))).await;
        let took = writable.elapsed();
        assert!(took <= ACKS_AGAIN, "{prefix}: acks came {took:?} after access was back\n{}", setup.log());
        server.api.until_ready().await;
        let status = server.api.get("/v1/status").await.expect(200).json();
        assert!(status["object_store"].is_null(), "{status}");
        stop.store(true, Ordering::Relaxed);
        [meanwhile, fresh].concat()
    };
    let (writes, mut others) = join(join_all(producers), weather).await;
    for write in &mut others {
        write.complete(&server.api).await;
    }
    let writes = [writes.concat(), others].concat();
    assert!(writes.iter().all(Write::is_acked));
    check(&server.api, &writes).await;
    assert!(!setup.log().contains(SECRET), "{}", setup.log());
}

/// Writes while nothing can be written, and looks at what is told.
async fn while_read_only(server: &Server, tables: &[String]) -> Vec<Write> {
    let end = Instant::now() + READ_ONLY;
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut writes, mut told) = (Vec::new(), Vec::new());
    for number in 0.. {
        let table = &tables[number % tables.len()];
        let mut write = Write::new(table, &format!("meanwhile-{number}"), 0, &mut random);
        let answer = write.send(&server.api).await.unwrap();
        if answer.status != 200 {
            check_refusal(&answer);
            told.push(answer.problem()["detail"].as_str().unwrap().to_owned());
        }
        writes.push(write);
        if Instant::now() >= end {
            break;
        }
        sleep(Duration::from_millis(300)).await;
    }
    server.api.get("/ready").await.expect(503);
    server.api.get("/health").await.expect(200);
    let status = server.api.get("/v1/status").await.expect(200).json();
    let ill = &status["object_store"];
    assert_eq!((&ill["access"], &ill["refused"]), (&json!("writes"), &json!(true)), "{status}");
    assert!(ill["error"].as_str().unwrap().starts_with("AccessDenied"), "{status}");
    assert!(!status.to_string().contains(SECRET), "{status}");
    let named = |detail: &&String| {
        detail.contains("the object store refuses writes")
            && detail.contains("AccessDenied (said by the gate)")
    };
    assert!(told.iter().any(|detail| named(&detail)), "no client was told why: {told:#?}");
    assert!(!told.iter().any(|detail| detail.contains(SECRET) || detail.contains("<Error>")), "{told:#?}");
    writes
}

/// It says why it does not start, whichever metadata it has, and does not wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_does_not_start_on_what_it_may_not_write() {
    let (s3, etcd) = (Peer::ministack().await, Peer::etcd().await);
    let gate = read_only_gate(&s3, Arc::new(AtomicBool::new(true))).await;
    let etcd_flags = format!(" --meta etcd --etcd-endpoints {}", etcd.url());
    let start = async |flags: &str| {
        let setup = Setup::gateway(&format!("{}{flags}", s3_flags(&gate, "never"))).env(&CREDENTIALS);
        assert_eq!(setup.spawn().ends().await, 1, "{}", setup.log());
        let log = setup.log();
        let error = log.split("error: ").nth(1).unwrap_or_default();
        for part in ["AccessDenied (said by the gate)", "a permission", "wadi doctor"] {
            assert!(error.contains(part), "{part:?} is missing in {log}");
        }
        assert!(!log.contains(SECRET), "{log}");
    };
    join(start(""), start(&etcd_flags)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_tells_permissions_apart() {
    let s3 = Peer::ministack().await;
    let gate = read_only_gate(&s3, Arc::new(AtomicBool::new(true))).await;
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_wadi"));
    doctor.args(["--json", "doctor"]).args(s3_flags(&gate, "doctor").split(' ')).envs(CREDENTIALS);
    let output = doctor.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
    for (name, ok) in [("PUT", false), ("GET", true), ("LIST", true), ("DELETE", false), ("root", true)] {
        assert_eq!(of(name)["ok"], ok, "{checks:#}");
    }
    let detail = of("PUT")["detail"].as_str().unwrap();
    assert!(detail.contains("AccessDenied") && detail.contains("permission"), "{detail}");
    let all = format!("{output:?}");
    assert!(!all.contains(SECRET) && !all.contains("test-secret"), "{all}");
}

/// Credentials that a container's endpoint hands out, each set with a number.
#[derive(Debug, Default)]
struct Source {
    /// The set that is handed out.
    number: AtomicU64,
    /// The oldest set that the store still takes.
    oldest: AtomicU64,
    /// The numbers of the sets that requests were signed with.
    used: Mutex<Vec<u64>>,
}

/// object_store asks for new ones when less than this is left.
const RENEWED: u64 = 300;

impl Source {
    fn document(&self) -> String {
        let number = self.number.load(Ordering::SeqCst);
        json!({
            "AccessKeyId": format!("KEY{number}"),
            "SecretAccessKey": "the-secret-key-of-the-container",
            "Token": SECRET,
            // In two seconds they are to be renewed.
            "Expiration": in_seconds(RENEWED + 2),
        })
        .to_string()
    }
}

/// The time in so many seconds, as such documents write it.
fn in_seconds(seconds: u64) -> String {
    let time = Command::new("date").args(["-u", "-d", &format!("+{seconds} seconds"), "+%FT%TZ"]).output();
    String::from_utf8(time.unwrap().stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_expire_are_replaced() {
    let s3 = Peer::ministack().await;
    let source = Arc::new(Source::default());
    let handing = source.clone();
    let endpoint = serve(Router::new().route("/credentials", get(async move || handing.document()))).await;
    let checking = source.clone();
    let gate = gate(s3.url(), move |parts| {
        let signed = parts.headers.get("authorization").map_or("", |value| value.to_str().unwrap());
        let (_, number) = signed.split_once("Credential=KEY")?;
        let number: u64 = number.split('/').next()?.parse().ok()?;
        checking.used.lock().unwrap().push(number);
        let expired = number < checking.oldest.load(Ordering::SeqCst);
        expired.then(|| {
            let token = format!("<Token-0>{SECRET}</Token-0>");
            s3_error(StatusCode::BAD_REQUEST, "ExpiredToken", &token)
        })
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "let-me-in").unwrap();
    let env = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{endpoint}/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let setup = Setup::gateway(&format!("{} --shards 2 --lease-ttl 6s", s3_flags(&gate, "expire")));
    let setup = setup.env(&env);
    let server = setup.ready().await;
    let tables = create_tables(&server.api, 1).await;
    let mut random = StdRng::seed_from_u64(SEED);
    let mut writes = Vec::new();

    // Replaced in time, nobody notices: every request succeeds at once.
    for number in 1..=3 {
        source.number.store(number, Ordering::SeqCst);
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            let mut write = Write::new(&tables[0], &format!("w{}", writes.len()), 0, &mut random);
            assert_eq!(write.send(&server.api).await.unwrap().status, 200, "{}", setup.log());
            writes.push(write);
        }
        assert_eq!(source.used.lock().unwrap().last(), Some(&number));
        // Those before have expired.
        source.oldest.store(number, Ordering::SeqCst);
    }

    // Replaced too late: meanwhile it is said what is wrong.
    source.oldest.store(4, Ordering::SeqCst);
    let mut told = String::new();
    let until = Instant::now() + Duration::from_secs(15);
    while Instant::now() < until {
        let mut write = Write::new(&tables[0], &format!("w{}", writes.len()), 0, &mut random);
        let answer = write.send(&server.api).await.unwrap();
        check_refusal(&answer);
        told.push_str(answer.problem()["detail"].as_str().unwrap());
        writes.push(write);
        sleep(Duration::from_millis(300)).await;
    }
    assert!(told.contains("the object store refuses") && told.contains("ExpiredToken"), "{told}");
    assert!(told.contains("the credentials have expired"), "{told}");
    source.number.store(4, Ordering::SeqCst);
    let back = Instant::now();
    for write in &mut writes {
        if !write.is_acked() {
            write.complete(&server.api).await;
        }
    }
    assert!(back.elapsed() < ACKS_AGAIN + Duration::from_secs(2), "{:?}\n{}", back.elapsed(), setup.log());
    check(&server.api, &writes).await;
    let said = format!("{}{told}", setup.log());
    for secret in [SECRET, "the-secret-key-of-the-container", "let-me-in"] {
        assert!(!said.contains(secret), "{secret} is told: {said}");
    }
}
