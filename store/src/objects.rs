//! Opening the object store that a URL names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::client::ClientOptions;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use wadi_model::env::Env;

pub use counted::{Counted, RequestMetrics};
pub use guarded::Guarded;
pub use health::{Health, Illness, Unwritten};
pub(crate) use plain::told;

mod counted;
mod guarded;
mod health;
mod plain;

/// An object store and the cluster's root in it.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The root.
    pub root: Path,
    /// Where it is, always written in the same way: `s3://bucket/prefix` or `file:///directory`.
    pub url: String,
    /// The directory, if it is one.
    pub directory: Option<PathBuf>,
    /// How it is. Of a directory nothing is noted: its errors are never repeated, and so always told.
    pub health: Health,
}

/// What a URL does not say.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// The server, for S3-compatible stores.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Whether plain HTTP may be used.
    pub allow_http: bool,
    /// Credentials, if they are not to be looked for in the environment.
    pub keys: Option<S3Keys>,
}

/// Credentials for S3. Never shown.
#[derive(Clone)]
pub struct S3Keys {
    /// The access key.
    pub id: String,
    /// The secret key.
    pub secret: String,
    /// The session token of credentials that end.
    pub token: Option<String>,
}

impl std::fmt::Debug for S3Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("S3Keys")
    }
}

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no store that is known.
    #[error("\"{url}\" names no object store; write file:///directory, s3://bucket/prefix or a path")]
    Unknown {
        /// The URL as given.
        url: String,
    },
    /// The directory cannot be made.
    #[error("directory {} cannot be used: {source}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The settings do not fit.
    #[error("{url}: {source}")]
    Settings {
        /// The URL.
        url: String,
        /// Why.
        source: object_store::Error,
    },
}

/// Opens the store of a URL: `file:///directory` or a path, or `s3://bucket/prefix`. Credentials for S3 come from the
/// environment, as for other tools.
pub fn open(url: &str, s3: &S3Options, env: &Env) -> Result<Objects, OpenError> {
    match url.split_once("://") {
        Some(("file", path)) => open_directory(path.into()),
        Some(("s3", rest)) => open_s3(url, rest, s3, env),
        None if !url.is_empty() => open_directory(url.into()),
        _ => Err(OpenError::Unknown { url: url.to_owned() }),
    }
}

/// Opens a local directory, which is made if needed. Files are synced: an ack means the disk has it.
pub fn open_directory(path: PathBuf) -> Result<Objects, OpenError> {
    let failed = |source| OpenError::Directory { path: path.clone(), source };
    std::fs::create_dir_all(&path).map_err(failed)?;
    let url = format!("file://{}", path.canonicalize().map_err(failed)?.display());
    let settings = |source| OpenError::Settings { url: path.display().to_string(), source };
    let store = LocalFileSystem::new_with_prefix(&path).map_err(settings)?.with_fsync(true);
    let health = Health::default();
    Ok(Objects { store: Arc::new(store), root: Path::default(), url, directory: Some(path), health })
}

fn open_s3(url: &str, rest: &str, options: &S3Options, env: &Env) -> Result<Objects, OpenError> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    // Bounded, so that a log PUT's budget is spent on several tries and not on one that hangs.
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: Duration::from_millis(50), ..BackoffConfig::default() },
        max_retries: 3,
        retry_timeout: Duration::from_secs(4),
    };
    let client = ClientOptions::new()
        .with_timeout(Duration::from_secs(30))
        .with_connect_timeout(Duration::from_secs(2))
        .with_allow_http(options.allow_http);
    let mut builder =
        AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry).with_client_options(client);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(keys) = &options.keys {
        builder = builder.with_access_key_id(&keys.id).with_secret_access_key(&keys.secret);
        if let Some(token) = &keys.token {
            builder = builder.with_token(token);
        }
    }
    let store = builder.build().map_err(|source| OpenError::Settings { url: url.to_owned(), source })?;
    let health = Health::new(env.clone());
    let store = Arc::new(Guarded::new(Arc::new(store), health.clone()));
    let root = Path::from(prefix);
    let url = format!("s3://{bucket}/{root}");
    Ok(Objects { store, root, url, directory: None, health })
}
