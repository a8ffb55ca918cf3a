//! The settings of a bucket but for its lifecycle: whether it is there, encryption, public access, versions.

use aws_sdk_s3::types::{
    BucketLocationConstraint, BucketVersioningStatus, CreateBucketConfiguration,
    PublicAccessBlockConfiguration, ServerSideEncryption, ServerSideEncryptionByDefault,
    ServerSideEncryptionConfiguration, ServerSideEncryptionRule, VersioningConfiguration,
};

use super::trouble::Trouble;
use super::{Bucket, Look, REGION, days};

impl Bucket {
    pub(super) async fn look_for(&self) -> Result<Look, Trouble> {
        let name = &self.wanted.bucket;
        let error = match self.client.head_bucket().bucket(name).send().await {
            Ok(_) => return Ok(Look::Right(format!("{name} is there"))),
            Err(error) => error,
        };
        let elsewhere = error.raw_response().and_then(|answer| answer.headers().get("x-amz-bucket-region"));
        let elsewhere = elsewhere.filter(|region| *region != self.region).map(str::to_owned);
        let trouble =
            Trouble::of(error, "s3:ListBucket, and that the bucket is yours: names are shared by all of AWS");
        match (trouble.status, elsewhere) {
            (Some(404), _) => Ok(Look::Wrong(format!("there is no bucket {name}"))),
            (Some(301 | 307 | 400), Some(region)) => {
                Err(Trouble::new(format!("{name} is in region {region}; give --s3-region {region}")))
            }
            _ => Err(trouble),
        }
    }

    pub(super) async fn make(&self) -> Result<(), Trouble> {
        let mut make = self.client.create_bucket().bucket(&self.wanted.bucket);
        // The first region has no name there.
        if self.region != REGION {
            let place = BucketLocationConstraint::from(self.region.as_str());
            let place = CreateBucketConfiguration::builder().location_constraint(place).build();
            make = make.create_bucket_configuration(place);
        }
        match make.send().await {
            Ok(_) => Ok(()),
            Err(error) => match Trouble::of(error, "s3:CreateBucket") {
                trouble if trouble.is(&["BucketAlreadyOwnedByYou"]) => Ok(()),
                trouble => Err(trouble),
            },
        }
    }

    pub(super) async fn encryption(&self) -> Result<Look, Trouble> {
        let none = || Ok(Look::Wrong("new objects are not encrypted by default".to_owned()));
        let found = match self.client.get_bucket_encryption().bucket(&self.wanted.bucket).send().await {
            Ok(found) => found,
            Err(error) => {
                let trouble = Trouble::of(error, "s3:GetEncryptionConfiguration");
                let unset = trouble.is(&["ServerSideEncryptionConfigurationNotFoundError"]);
                return if unset { none() } else { Err(trouble) };
            }
        };
        let rules = found.server_side_encryption_configuration().map(|c| c.rules()).unwrap_or_default();
        let Some(default) = rules.iter().find_map(|rule| rule.apply_server_side_encryption_by_default())
        else {
            return none();
        };
        let key = default.kms_master_key_id();
        let seen = match key {
            Some(key) => format!("new objects are encrypted: {} with key {key}", default.sse_algorithm()),
            None => format!("new objects are encrypted: {}", default.sse_algorithm()),
        };
        // Whatever the bucket does is no weaker than S3's own keys.
        Ok(match &self.wanted.kms_key {
            None => Look::Right(seen),
            Some(wanted) if key == Some(wanted) => Look::Right(seen),
            Some(wanted) => Look::Wrong(format!("{seen}, and not with key {wanted}")),
        })
    }

    pub(super) async fn encrypt(&self) -> Result<(), Trouble> {
        let kind = match &self.wanted.kms_key {
            Some(_) => ServerSideEncryption::AwsKms,
            None => ServerSideEncryption::Aes256,
        };
        let by_default = ServerSideEncryptionByDefault::builder()
            .sse_algorithm(kind)
            .set_kms_master_key_id(self.wanted.kms_key.clone())
            .build();
        let incomplete = |e: aws_sdk_s3::error::BuildError| Trouble::new(e.to_string());
        let by_default = by_default.map_err(incomplete)?;
        // One request to KMS for many objects, instead of one for each.
        let rule = ServerSideEncryptionRule::builder()
            .apply_server_side_encryption_by_default(by_default)
            .set_bucket_key_enabled(self.wanted.kms_key.is_some().then_some(true))
            .build();
        let all = ServerSideEncryptionConfiguration::builder().rules(rule).build().map_err(incomplete)?;
        let put = self.client.put_bucket_encryption().bucket(&self.wanted.bucket);
        let put = put.server_side_encryption_configuration(all).send().await;
        put.map(drop).map_err(|e| Trouble::of(e, "s3:PutEncryptionConfiguration"))
    }

    pub(super) async fn public_access(&self) -> Result<Look, Trouble> {
        let open = || Ok(Look::Wrong("objects could be made public".to_owned()));
        let found = match self.client.get_public_access_block().bucket(&self.wanted.bucket).send().await {
            Ok(found) => found,
            Err(error) => {
                let trouble = Trouble::of(error, "s3:GetBucketPublicAccessBlock");
                let unset = trouble.is(&["NoSuchPublicAccessBlockConfiguration"]);
                return if unset { open() } else { Err(trouble) };
            }
        };
        let blocked = found.public_access_block_configuration().is_some_and(|block| {
            [
                block.block_public_acls(),
                block.ignore_public_acls(),
                block.block_public_policy(),
                block.restrict_public_buckets(),
            ]
            .iter()
            .all(|set| *set == Some(true))
        });
        if blocked { Ok(Look::Right("nothing can be made public".to_owned())) } else { open() }
    }

    pub(super) async fn block_public_access(&self) -> Result<(), Trouble> {
        let block = PublicAccessBlockConfiguration::builder()
            .block_public_acls(true)
            .ignore_public_acls(true)
            .block_public_policy(true)
            .restrict_public_buckets(true)
            .build();
        let put = self.client.put_public_access_block().bucket(&self.wanted.bucket);
        let put = put.public_access_block_configuration(block).send().await;
        put.map(drop).map_err(|e| Trouble::of(e, "s3:PutBucketPublicAccessBlock"))
    }

    pub(super) async fn versioning(&self) -> Result<Look, Trouble> {
        let found = self.client.get_bucket_versioning().bucket(&self.wanted.bucket).send().await;
        let found = found.map_err(|e| Trouble::of(e, "s3:GetBucketVersioning"))?;
        let on = found.status() == Some(&BucketVersioningStatus::Enabled);
        let seen = match on {
            true => format!("what is deleted is kept, for {}", days(self.wanted.noncurrent_days)),
            false => "what is deleted is gone at once".to_owned(),
        };
        Ok(if on == self.wanted.versions { Look::Right(seen) } else { Look::Wrong(seen) })
    }

    pub(super) async fn version(&self) -> Result<(), Trouble> {
        let status = match self.wanted.versions {
            true => BucketVersioningStatus::Enabled,
            false => BucketVersioningStatus::Suspended,
        };
        let versions = VersioningConfiguration::builder().status(status).build();
        let put = self.client.put_bucket_versioning().bucket(&self.wanted.bucket);
        let put = put.versioning_configuration(versions).send().await;
        put.map(drop).map_err(|e| Trouble::of(e, "s3:PutBucketVersioning"))
    }
}
