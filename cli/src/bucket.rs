//! A bucket of S3 as Wadi wants it: what it is to be like, and the steps that bring it there.
//!
//! Each step looks, changes what differs, and looks again: a store that takes a setting and does not keep it is found out. A setting that
//! a store does not have is told as such. No step undoes what others have set: a stronger encryption stays, and so do rules of a lifecycle
//! under other names.
//!
//! `wadi admin init` runs it. Objects themselves are read and written through `object_store` alone, as gateways do.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, ProvideCredentials, Region, SharedCredentialsProvider};
use serde::Serialize;
use wadi_store::objects::{S3Keys, S3Options};

use trouble::Trouble;

mod lifecycle;
mod settings;
mod trouble;

/// How long one request may take, with all its repetitions.
const REQUEST: Duration = Duration::from_secs(30);

/// What object_store takes without any, so that both ask the same.
const REGION: &str = "us-east-1";

/// What a bucket is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) bucket: String,
    /// Of the root, without a slash at its end. Empty for a root that is the bucket.
    pub(crate) prefix: String,
    pub(crate) kms_key: Option<String>,
    pub(crate) abort_days: i32,
    /// Whether it keeps versions.
    pub(crate) versions: bool,
    pub(crate) noncurrent_days: i32,
    /// Whether nothing is changed.
    pub(crate) check: bool,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// There was nothing to do.
    AlreadySo,
    /// It was set.
    Done,
    /// It is not as it is to be, and was left so.
    Differs,
    /// The store has no such thing.
    NotSupported,
    /// It was looked at, and is well.
    Holds,
    /// It was not looked at.
    NotExamined,
    /// It could not be done, or is not well.
    Failed,
}

impl State {
    pub(crate) fn words(self) -> &'static str {
        match self {
            State::AlreadySo => "already so",
            State::Done => "done",
            State::Differs => "differs",
            State::NotSupported => "not supported by this store",
            State::Holds => "ok",
            State::NotExamined => "not examined",
            State::Failed => "FAILED",
        }
    }
}

/// One step, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) step: &'static str,
    pub(crate) state: State,
    pub(crate) detail: String,
}

impl Step {
    pub(crate) fn new(step: &'static str, state: State, detail: impl Into<String>) -> Step {
        Step { step, state, detail: detail.into() }
    }
}

/// The name of the first step, without which there is nothing to set.
const BUCKET: &str = "bucket";

/// Whether the bucket is there after these steps.
pub(crate) fn is_there(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.step == BUCKET && matches!(step.state, State::AlreadySo | State::Done))
}

/// A number of days in words.
fn days(count: i32) -> String {
    if count == 1 { "a day".to_owned() } else { format!("{count} days") }
}

/// A bucket that is to be prepared.
#[derive(Debug)]
pub(crate) struct Bucket {
    client: Client,
    credentials: Option<SharedCredentialsProvider>,
    region: String,
    wanted: Wanted,
}

/// What a look at a setting finds.
enum Look {
    Right(String),
    Wrong(String),
}

impl Bucket {
    /// Nothing is asked yet.
    pub(crate) async fn connect(wanted: Wanted, options: &S3Options) -> Bucket {
        let variable = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
        let region = options.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        let timeout = TimeoutConfig::builder().operation_timeout(REQUEST).build();
        let shared = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.clone()))
            .timeout_config(timeout)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .load()
            .await;
        let mut config = aws_sdk_s3::config::Builder::from(&shared);
        // The names that object_store knows, so that gateways find the same.
        let of_environment = || variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]);
        if let Some(endpoint) = options.endpoint.clone().or_else(of_environment) {
            config = config.endpoint_url(endpoint).force_path_style(true);
        }
        let credentials = shared.credentials_provider();
        Bucket { client: Client::from_conf(config.build()), credentials, region, wanted }
    }

    /// The credentials that were found, for requests that go another way.
    pub(crate) async fn keys(&self) -> Result<S3Keys, String> {
        let none = || "no credentials for S3 were found".to_owned();
        let provider = self.credentials.as_ref().ok_or_else(none)?;
        let found = provider.provide_credentials().await.map_err(|e| {
            let why =
                std::error::Error::source(&e).map_or_else(|| e.to_string(), |source| source.to_string());
            format!("no credentials for S3 were found: {why}")
        })?;
        Ok(S3Keys {
            id: found.access_key_id().to_owned(),
            secret: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        })
    }

    /// Takes all steps.
    pub(crate) async fn prepare(&self) -> Vec<Step> {
        let mut steps = vec![self.ensure(BUCKET, || self.look_for(), || self.make()).await];
        if !is_there(&steps) {
            return steps;
        }
        let encryption = self.ensure("encryption", || self.encryption(), || self.encrypt());
        steps.push(encryption.await);
        let access =
            self.ensure("public access block", || self.public_access(), || self.block_public_access());
        steps.push(access.await);
        let versions = self.ensure("versioning", || self.versioning(), || self.version());
        steps.push(versions.await);
        for rule in self.rules() {
            let step = self.ensure(rule.step, || self.look_at_rule(&rule), || self.set_rule(&rule));
            steps.push(step.await);
        }
        steps
    }

    async fn ensure(
        &self,
        step: &'static str,
        look: impl AsyncFn() -> Result<Look, Trouble>,
        set: impl AsyncFn() -> Result<(), Trouble>,
    ) -> Step {
        let before = match look().await {
            Ok(Look::Right(seen)) => return Step::new(step, State::AlreadySo, seen),
            Ok(Look::Wrong(seen)) if self.wanted.check => return Step::new(step, State::Differs, seen),
            Ok(Look::Wrong(seen)) => seen,
            Err(trouble) => return trouble.step(step),
        };
        if let Err(trouble) = set().await {
            return trouble.step(step);
        }
        match look().await {
            Ok(Look::Right(seen)) => Step::new(step, State::Done, format!("{seen}; before: {before}")),
            Ok(Look::Wrong(seen)) => {
                let detail = format!("the store takes the setting and does not keep it: {seen}");
                Step::new(step, State::NotSupported, detail)
            }
            Err(trouble) => trouble.step(step),
        }
    }
}
