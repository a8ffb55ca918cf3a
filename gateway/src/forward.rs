//! Plain requests to other gateways: whole ones of clients that another gateway must answer, since it alone knows what they are about
//! (the pages of its scans), and questions of our own ([`crate::everywhere`], [`crate::reachable`]).

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderName, Uri, header};
use wadi_model::ErrorKind;
use wadi_store::secret::ClusterSecret;
use wadi_store::versions::{INTERNAL, INTERNAL_HEADER};

use crate::problem::Problem;
use crate::trace;

/// Headers of a request that go with it.
const ASKED: [HeaderName; 2] = [header::ACCEPT, header::AUTHORIZATION];

/// The way to other gateways for plain requests.
#[derive(Clone, Debug)]
pub(crate) struct Forward(reqwest::Client);

impl Default for Forward {
    fn default() -> Forward {
        // As for all that gateways ask each other. What can fail there is TLS, which is not used.
        Forward(reqwest::Client::builder().no_proxy().build().unwrap_or_default())
    }
}

impl Forward {
    /// Asks the gateway at this address the same, and passes on what it says.
    pub(crate) async fn get(
        &self,
        address: &str,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Response, Problem> {
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = self.0.get(format!("{address}{target}")).headers(trace::passed());
        for name in &ASKED {
            if let Some(value) = headers.get(name) {
                request = request.header(name, value);
            }
        }
        let unreachable = |e: reqwest::Error| {
            let detail = format!(
                "the gateway that has this scan does not answer: {e}; ask again, or begin the scan anew"
            );
            Problem::new(ErrorKind::Unavailable, "owner_unreachable", detail)
        };
        let answer = request.send().await.map_err(unreachable)?;
        let (status, told) = (answer.status(), answer.headers().clone());
        let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
        *response.status_mut() = status;
        for (name, value) in &told {
            if *name == header::CONTENT_TYPE || name.as_str().starts_with("wadi-") {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }

    /// Asks the gateway at this address something of our own that has a short answer. The error says what it said instead.
    pub(crate) async fn ask(
        &self,
        address: &str,
        path: &str,
        secret: &ClusterSecret,
    ) -> Result<String, String> {
        let asked = self.0.post(format!("{address}{path}")).headers(trace::passed());
        let asked = asked.header(header::AUTHORIZATION, secret.bearer()).header(INTERNAL_HEADER, INTERNAL);
        let answer = asked.send().await.map_err(|e| e.to_string())?;
        match answer.status() {
            status if status.is_success() => answer.text().await.map_err(|e| e.to_string()),
            status => Err(status.to_string()),
        }
    }
}
