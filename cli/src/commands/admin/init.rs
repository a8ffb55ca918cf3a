//! `wadi admin init`: a bucket as Wadi wants it.

use clap::{Args, ValueEnum};
use serde_json::json;
use wadi_model::env::Env;
use wadi_store::objects;

use crate::args::boolish;
use crate::bucket::{self, Bucket, State, Step, Wanted};
use crate::config::{ConfigArgs, ServerConfig, ServerKind};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::server::s3_options;

/// Prepare a bucket: make it, set what Wadi wants of it, and prove that it fences.
///
/// What is right already is left as it is, so running it again changes nothing; and with --check nothing is changed at all. Settings
/// that a store does not have are told and are no failure; that objects are created once only is needed. Rules for lifecycles
/// that others have set stay: Wadi's have names of their own and hold below the root's prefix alone.
///
/// Credentials are looked for as the tools of AWS do: variables, profiles, single sign-on, the role of the container or machine. (Gateways
/// know variables and roles, no profiles.) They need s3:CreateBucket, s3:ListBucket, s3:Get… and s3:Put… of BucketVersioning, LifecycleConfiguration,
/// EncryptionConfiguration and BucketPublicAccessBlock, and for the proof s3:GetObject, s3:PutObject and s3:DeleteObject.
///
/// For a directory there is nothing to prepare: it is examined.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Change nothing: say what differs. Fails if something does.
    #[arg(long, env = "WADI_CHECK", value_parser = boolish())]
    check: bool,
    /// Encrypt new objects with this key of KMS [default: with S3's own keys, or as the bucket does already].
    #[arg(long, env = "WADI_KMS_KEY", value_name = "ID OR ARN")]
    kms_key: Option<String>,
    /// End uploads in parts that were never completed after so many days; they cost money and are seen nowhere.
    #[arg(long, env = "WADI_ABORT_UPLOADS_DAYS", value_name = "DAYS", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=365))]
    abort_uploads_days: i32,
    /// Whether the bucket keeps what is deleted. Wadi never changes an object but for the small CLUSTER, and deletes what it has merged and no
    /// longer needs; so it gains nothing by it. People do: what somebody deletes by mistake can be brought back. It costs the deleted
    /// objects of the days below, about twice what was written in that time. With `off` a bucket that keeps versions stops doing so.
    #[arg(long, env = "WADI_VERSIONING", value_enum, default_value_t = Versioning::On)]
    versioning: Versioning,
    /// How many days deleted objects are kept where the bucket has versions: a weekend, by default. Without this rule they would be
    /// paid for for ever.
    #[arg(long, env = "WADI_NONCURRENT_DAYS", value_name = "DAYS", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=365))]
    noncurrent_days: i32,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Versioning {
    On,
    Off,
}

pub(super) async fn run(args: InitArgs, context: &Context) -> Result<(), Failure> {
    let config = ServerConfig::load(ServerKind::Gateway, &args.config)?;
    let url = config.object_store_url()?;
    let steps = match url.strip_prefix("s3://") {
        Some(place) => {
            let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
            let wanted = Wanted {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
                kms_key: args.kms_key,
                abort_days: args.abort_uploads_days,
                versions: args.versioning == Versioning::On,
                noncurrent_days: args.noncurrent_days,
                check: args.check,
            };
            prepare(&url, wanted, &config).await?
        }
        None => {
            let nothing = "a directory needs none; its files are synced before a write is acked";
            let mut steps = vec![Step::new("preparation", State::AlreadySo, nothing)];
            if !args.check {
                steps.extend(prove(&url, &objects::S3Options::default()).await?);
            }
            steps
        }
    };
    report(context, &url, args.check, &steps)?;
    let count = |state| steps.iter().filter(|step| step.state == state).count();
    match (count(State::Failed), count(State::Differs)) {
        (0, 0) => Ok(()),
        (0, differ) => Err(Failure::new(format!("{differ} of {} settings differ", steps.len()))
            .hint("without --check they are set")),
        (failed, _) => Err(Failure::new(format!("{failed} of {} steps failed", steps.len()))),
    }
}

async fn prepare(url: &str, wanted: Wanted, config: &ServerConfig) -> Result<Vec<Step>, Failure> {
    let (check, options) = (wanted.check, s3_options(config));
    let bucket = Bucket::connect(wanted, &options).await;
    let mut steps = bucket.prepare().await;
    if check {
        let detail = "not examined, as that writes objects; `wadi doctor` does it";
        steps.push(Step::new("create if absent", State::NotExamined, detail));
    } else if bucket::is_there(&steps) {
        let keys = bucket.keys().await.map_err(Failure::new)?;
        steps.extend(prove(url, &objects::S3Options { keys: Some(keys), ..options }).await?);
    }
    Ok(steps)
}

/// The doctor's examination, as steps.
async fn prove(url: &str, options: &objects::S3Options) -> Result<Vec<Step>, Failure> {
    let env = Env::default();
    let opened = objects::open(url, options, &env).map_err(|e| Failure::new(e.to_string()))?;
    let findings = wadi_store::doctor::examine(opened.store.as_ref(), &opened.root, &env).await;
    let step = |finding: wadi_store::doctor::Finding| {
        let state = if finding.ok { State::Holds } else { State::Failed };
        Step::new(finding.check, state, finding.detail)
    };
    Ok(findings.into_iter().map(step).collect())
}

fn report(context: &Context, url: &str, check: bool, steps: &[Step]) -> Result<(), Failure> {
    if context.json {
        return output::json(&json!({ "root": url, "check": check, "steps": steps }));
    }
    let mut table = output::table(["step", "", "detail"]);
    for step in steps {
        table.add_row([step.step, step.state.words(), &step.detail]);
    }
    output::line(table)
}
