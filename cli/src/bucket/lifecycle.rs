//! Rules of a bucket's lifecycle: what nobody completes or needs goes by itself.
//!
//! All rules of a bucket are one document. It is read, Wadi's rule is put in the place of the one with its name, and all of it is
//! written again; others' rules stay. (Two that do so at the same moment may undo each other: S3 knows no condition there. The look that
//! follows each change tells.) A rule's name has the root's prefix in it, and it holds for that alone: a bucket may hold several roots.

use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, ExpirationStatus, LifecycleExpiration,
    LifecycleRule, LifecycleRuleFilter, NoncurrentVersionExpiration, TransitionDefaultMinimumObjectSize,
};

use super::trouble::Trouble;
use super::{Bucket, Look, days};

/// What every rule's name begins with.
const NAME: &str = "wadi";

/// A rule that is to be there.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) step: &'static str,
    id: String,
    prefix: String,
    action: Action,
    days: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    AbortUploads,
    ExpireNoncurrent,
}

impl Rule {
    /// In words.
    fn says(&self) -> String {
        match self.action {
            Action::AbortUploads => {
                format!("uploads that are not completed in {} are ended", days(self.days))
            }
            Action::ExpireNoncurrent => format!("what is deleted is gone for good after {}", days(self.days)),
        }
    }

    fn build(&self) -> Result<LifecycleRule, Trouble> {
        let rule = LifecycleRule::builder()
            .id(&self.id)
            .status(ExpirationStatus::Enabled)
            .filter(LifecycleRuleFilter::builder().prefix(&self.prefix).build());
        let rule = match self.action {
            Action::AbortUploads => rule.abort_incomplete_multipart_upload(
                AbortIncompleteMultipartUpload::builder().days_after_initiation(self.days).build(),
            ),
            Action::ExpireNoncurrent => rule
                .noncurrent_version_expiration(
                    NoncurrentVersionExpiration::builder().noncurrent_days(self.days).build(),
                )
                // Marks of deletions that nothing is left behind would be met by every list.
                .expiration(LifecycleExpiration::builder().expired_object_delete_marker(true).build()),
        };
        rule.build().map_err(|e| Trouble::new(e.to_string()))
    }

    /// Whether a rule of the bucket does this, whatever its name is.
    fn is_done_by(&self, rule: &LifecycleRule) -> bool {
        #[allow(deprecated, reason = "servers of other makes still answer in the first form")]
        let prefix = rule.filter().and_then(|filter| filter.prefix()).or(rule.prefix()).unwrap_or_default();
        let days = match self.action {
            Action::AbortUploads => {
                rule.abort_incomplete_multipart_upload().and_then(|abort| abort.days_after_initiation())
            }
            Action::ExpireNoncurrent => {
                rule.noncurrent_version_expiration().and_then(|expire| expire.noncurrent_days())
            }
        };
        let marks = rule.expiration().and_then(|expire| expire.expired_object_delete_marker()) == Some(true);
        rule.status() == &ExpirationStatus::Enabled
            && prefix == self.prefix
            && days == Some(self.days)
            && (marks || self.action == Action::AbortUploads)
    }
}

/// The rules of a bucket.
struct Lifecycle {
    rules: Vec<LifecycleRule>,
    /// Goes with them, and is kept as it is.
    smallest: Option<TransitionDefaultMinimumObjectSize>,
}

impl Bucket {
    pub(super) fn rules(&self) -> [Rule; 2] {
        let root = self.wanted.prefix.as_str();
        let prefix = if root.is_empty() { String::new() } else { format!("{root}/") };
        let rule = |step, what: &str, action, days| {
            let id = if root.is_empty() { format!("{NAME}-{what}") } else { format!("{NAME}-{what}:{root}") };
            // A name has at most 255 characters.
            let id = id.chars().take(255).collect();
            Rule { step, id, prefix: prefix.clone(), action, days }
        };
        [
            rule("rule for uploads", "abort-uploads", Action::AbortUploads, self.wanted.abort_days),
            // Also without versions: the bucket may have had some, or get them.
            rule(
                "rule for versions",
                "expire-versions",
                Action::ExpireNoncurrent,
                self.wanted.noncurrent_days,
            ),
        ]
    }

    pub(super) async fn look_at_rule(&self, rule: &Rule) -> Result<Look, Trouble> {
        let found = self.lifecycle().await?.rules;
        if found.iter().any(|found| rule.is_done_by(found)) {
            return Ok(Look::Right(rule.says()));
        }
        let named = found.iter().any(|found| found.id() == Some(&rule.id));
        let seen = if named { "has other numbers" } else { "is missing" };
        Ok(Look::Wrong(format!("the rule \"{}\" {seen}", rule.id)))
    }

    pub(super) async fn set_rule(&self, rule: &Rule) -> Result<(), Trouble> {
        let mut found = self.lifecycle().await?;
        found.rules.retain(|found| found.id() != Some(&rule.id));
        found.rules.push(rule.build()?);
        let all = BucketLifecycleConfiguration::builder().set_rules(Some(found.rules)).build();
        let all = all.map_err(|e| Trouble::new(e.to_string()))?;
        let put = self.client.put_bucket_lifecycle_configuration().bucket(&self.wanted.bucket);
        let put = put.set_transition_default_minimum_object_size(found.smallest);
        let put = put.lifecycle_configuration(all).send().await;
        put.map(drop).map_err(|e| Trouble::of(e, "s3:PutLifecycleConfiguration"))
    }

    async fn lifecycle(&self) -> Result<Lifecycle, Trouble> {
        let get = self.client.get_bucket_lifecycle_configuration().bucket(&self.wanted.bucket);
        match get.send().await {
            Ok(found) => Ok(Lifecycle {
                smallest: found.transition_default_minimum_object_size().cloned(),
                rules: found.rules.unwrap_or_default(),
            }),
            Err(error) => match Trouble::of(error, "s3:GetLifecycleConfiguration") {
                trouble if trouble.is(&["NoSuchLifecycleConfiguration"]) => {
                    Ok(Lifecycle { rules: Vec::new(), smallest: None })
                }
                trouble => Err(trouble),
            },
        }
    }
}
