//! Buckets are prepared: twice the same, without taking away what is others', and on servers that do not have everything.

use std::process::{Command, Output};

use http::Method;
use serde_json::Value;

use crate::harness::{Api, send};
use crate::peers::{CREDENTIALS, Peer};

/// `wadi admin init` on `s3://<bucket>/<prefix>`.
fn init(peer: &Peer, place: &str, more: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wadi"));
    command.args(["--json", "admin", "init", "--s3-region", "us-east-1", "--s3-allow-http"]);
    command.args(["--object-store", &format!("s3://{place}"), "--s3-endpoint", peer.url()]);
    command.args(more.split_whitespace()).envs(CREDENTIALS).env("AWS_EC2_METADATA_DISABLED", "true");
    command.output().unwrap()
}

/// Steps and their states; the command must have ended with this code.
#[track_caller]
fn steps(output: &Output, code: i32) -> Vec<(String, String)> {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |step: &Value, name: &str| step[name].as_str().unwrap().to_owned();
    let steps = told["steps"].as_array().unwrap();
    steps.iter().map(|step| (text(step, "step"), text(step, "state"))).collect()
}

const SETTINGS: [&str; 6] =
    ["bucket", "encryption", "public access block", "versioning", "rule for uploads", "rule for versions"];

/// The states of the settings, and that all examinations are well.
#[track_caller]
fn settings(output: &Output) -> Vec<String> {
    let all = steps(output, 0);
    let (settings, examined) = all.split_at(SETTINGS.len());
    assert!(settings.iter().map(|(step, _)| step.as_str()).eq(SETTINGS), "{all:?}");
    let names: Vec<&str> = examined.iter().map(|(step, _)| step.as_str()).collect();
    assert!(names.contains(&"create if absent") && names.contains(&"one winner of a race"), "{all:?}");
    assert!(examined.iter().all(|(_, state)| state == "holds"), "{all:?}");
    settings.iter().map(|(_, state)| state.clone()).collect()
}

async fn get(peer: &Peer, target: &str) -> String {
    send(Api::new(peer.url()).request(Method::GET, target)).await.unwrap().text().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_prepared_once_and_found_right_after_that() {
    let s3 = Peer::ministack().await;
    // Nothing is changed by a look.
    let looked = steps(&init(&s3, "fresh/one", "--check"), 1);
    assert_eq!(looked[0], ("bucket".to_owned(), "differs".to_owned()));
    assert!(get(&s3, "/fresh").await.contains("NoSuchBucket"));

    let done = settings(&init(&s3, "fresh/one", ""));
    assert_eq!(done[0], "done");
    assert!(done.iter().all(|state| state == "done" || state == "already_so"), "{done:?}");
    let lifecycle = get(&s3, "/fresh?lifecycle").await;
    for part in ["wadi-abort-uploads:one", "wadi-expire-versions:one", "one/"] {
        assert!(lifecycle.contains(part), "{part} is missing in {lifecycle}");
    }
    assert!(get(&s3, "/fresh?versioning").await.contains("Enabled"));
    assert!(get(&s3, "/fresh?encryption").await.contains("AES256"));
    assert!(get(&s3, "/fresh?publicAccessBlock").await.contains("<BlockPublicAcls>true"));

    assert_eq!(settings(&init(&s3, "fresh/one", "")), vec!["already_so"; SETTINGS.len()]);
    let looked = steps(&init(&s3, "fresh/one", "--check"), 0);
    assert!(looked[..SETTINGS.len()].iter().all(|(_, state)| state == "already_so"), "{looked:?}");
    assert_eq!(looked.last().unwrap().1, "not_examined");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_others_stay_and_so_do_those_of_other_roots() {
    let s3 = Peer::ministack().await;
    let theirs = "<LifecycleConfiguration><Rule><ID>theirs</ID><Filter><Prefix>logs/</Prefix></Filter>\
        <Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>";
    let put = Api::new(s3.url()).request(Method::PUT, "/wadi?lifecycle").body(theirs);
    assert_eq!(send(put).await.unwrap().status, 200);
    for place in ["wadi/one", "wadi/two"] {
        settings(&init(&s3, place, ""));
    }
    // Other numbers take the place of those before.
    let looked = steps(&init(&s3, "wadi/one", "--abort-uploads-days 9 --check"), 1);
    assert_eq!(looked[4], ("rule for uploads".to_owned(), "differs".to_owned()));
    let changed = settings(&init(&s3, "wadi/one", "--abort-uploads-days 9"));
    assert_eq!(changed[4], "done");
    let lifecycle = get(&s3, "/wadi?lifecycle").await;
    for (part, times) in [
        ("<ID>theirs</ID>", 1),
        ("<Days>30</Days>", 1),
        ("wadi-abort-uploads:one<", 1),
        ("wadi-abort-uploads:two<", 1),
        ("<DaysAfterInitiation>9<", 1),
        ("<DaysAfterInitiation>1<", 1),
        ("wadi-expire-versions:one<", 1),
    ] {
        assert_eq!(lifecycle.matches(part).count(), times, "{part} in {lifecycle}");
    }
    // Versions can be given up again; what is there still goes.
    let changed = settings(&init(&s3, "wadi/two", "--versioning off"));
    assert_eq!((changed[3].as_str(), changed[5].as_str()), ("done", "already_so"));
    assert!(get(&s3, "/wadi?versioning").await.contains("Suspended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_does_not_have_is_told() {
    let mut s3 = Peer::seaweedfs().await;
    let done = settings(&init(&s3, "fresh/one", ""));
    assert_eq!(done[0], "done");
    let known = ["done", "already_so", "not_supported"];
    assert!(done.iter().all(|state| known.contains(&state.as_str())), "{done:?}");
    let again = settings(&init(&s3, "fresh/one", ""));
    assert!(!again.contains(&"done".to_owned()), "{again:?}");
    s3.kill();
    let failed = steps(&init(&s3, "fresh/one", ""), 1);
    assert_eq!(failed, [("bucket".to_owned(), "failed".to_owned())]);
}

#[test]
fn a_directory_needs_no_preparation() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wadi"));
    let output = command.args(["--json", "admin", "init", "--data-dir"]).arg(data.path()).output().unwrap();
    let all = steps(&output, 0);
    assert_eq!(all[0], ("preparation".to_owned(), "already_so".to_owned()));
    assert!(all.len() > 5 && all[1..].iter().all(|(_, state)| state == "holds"), "{all:?}");
}
