use axum::response::IntoResponse;
use futures::stream;
use http::HeaderMap;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(parent: Option<&str>) -> Traced {
    let mut request = Request::builder().uri("/v1/databases");
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    Traced::begin(&RequestId("r-1".to_owned()), &request.body(Body::empty()).unwrap())
}

fn parts(headers: &HeaderMap) -> [Option<&str>; 2] {
    ["x-request-id", "traceparent"].map(|name| headers.get(name).map(|value| value.to_str().unwrap()))
}

#[tokio::test]
async fn what_is_asked_for_a_request_carries_its_id_and_trace() {
    assert_eq!(parts(&passed()), [None, None], "outside of requests there is nothing to carry");
    let request = traced(Some(PARENT));
    let (here, there) = request
        .around(async {
            let task = wadi_store::task::spawn(carry(async { passed() }));
            (passed(), task.await.unwrap())
        })
        .await;
    assert_eq!(parts(&here), [Some("r-1"), Some(PARENT)]);
    assert_eq!(parts(&there), [Some("r-1"), Some(PARENT)]);
    assert_eq!(parts(&traced(Some("nonsense")).around(async { passed() }).await), [Some("r-1"), None]);
    assert_eq!(parts(&carry(async { passed() }).await), [None, None]);
}

#[tokio::test]
async fn an_answer_that_is_made_while_it_is_sent_is_still_of_its_request() {
    let said = stream::once(async { Ok::<_, axum::Error>(format!("{:?}", parts(&passed()))) });
    let answer = traced(Some(PARENT)).answered(Body::from_stream(said).into_response());
    let bytes = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
    assert_eq!(bytes, format!("{:?}", [Some("r-1"), Some(PARENT)]));
    // One that is there as a whole is left alone, with its length.
    let whole = traced(None).answered("whole".into_response());
    assert_eq!(whole.body().size_hint().exact(), Some(5));
}
