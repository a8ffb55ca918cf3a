//! The way from compactors to the owners of shards: a call may find nobody, arrive and get no answer, or reach an owner that has lost
//! its lease and does not know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use wadi_meta::catalog::Dropped;
use wadi_model::{LogSeq, ShardId};
use wadi_store::host::Host;
use wadi_store::owners::Owners;
use wadi_store::shard::{Deletable, Inputs, PackError, Round};
use wadi_store::stored::PackName;

use crate::faults::{Link, Reach};

/// How long a call waits for an answer that does not come.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a call is on its way.
const WAY: Duration = Duration::from_millis(2);

/// The gateways that live, by number.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<Mutex<BTreeMap<usize, (Link, Host)>>>);

impl Hosts {
    /// A gateway begins to live.
    pub fn born(&self, number: usize, link: Link, host: Host) {
        self.0.lock().insert(number, (link, host));
    }

    /// It has died.
    pub fn died(&self, number: usize) {
        self.0.lock().remove(&number);
    }

    /// Some gateway that says that it has the shard.
    fn owner(&self, shard: ShardId, link: &Link) -> Option<(Link, Host)> {
        let all = self.0.lock();
        let having: Vec<_> = all.values().filter(|(_, host)| host.open_shard(shard).is_some()).collect();
        if having.is_empty() {
            return None;
        }
        Some(having[link.dice().pick(0..having.len() as u64) as usize].clone())
    }
}

/// The owners as one compactor reaches them.
#[derive(Debug)]
pub struct SimOwners {
    hosts: Hosts,
    link: Link,
    /// The rounds that were shortened on the way, if they are.
    shortened: Option<Mutex<BTreeMap<ShardId, Round>>>,
}

impl SimOwners {
    /// The owners behind a link.
    pub fn new(hosts: Hosts, link: Link, shortens: bool) -> SimOwners {
        SimOwners { hosts, link, shortened: shortens.then(Mutex::default) }
    }

    async fn ask<T>(
        &self,
        shard: ShardId,
        call: impl AsyncFnOnce(Host) -> Result<T, PackError>,
    ) -> Result<T, PackError> {
        self.link.running().await;
        tokio::time::sleep(WAY).await;
        let (there, host) = self.hosts.owner(shard, &self.link).ok_or(PackError::NotOwned)?;
        let lost = || self.link.dice().chance(self.link.rates().lost_reply);
        let no_answer = || PackError::Unavailable("no answer".into());
        if matches!(there.reach(), Reach::Dead) || lost() {
            self.link.silence(TIMEOUT).await;
            return Err(no_answer());
        }
        let answer = tokio::time::timeout(TIMEOUT, async {
            there.running().await;
            call(host).await
        });
        let answer = answer.await;
        self.link.running().await;
        match answer {
            Ok(answer) if !lost() => answer,
            _ => Err(no_answer()),
        }
    }
}

#[async_trait]
impl Owners for SimOwners {
    async fn next_round(&self, shard: ShardId) -> Result<Option<Round>, PackError> {
        let round = self.ask(shard, async |host: Host| host.next_round(shard).await).await?;
        let Some((rounds, mut round)) = self.shortened.as_ref().zip(round.clone()) else { return Ok(round) };
        rounds.lock().insert(shard, round.clone());
        if let Inputs::Log(log) = &mut round.inputs
            && log.len() > 1
        {
            log.pop();
        }
        Ok(Some(round))
    }

    async fn commit_packs(
        &self,
        shard: ShardId,
        round: Round,
        packs: Vec<PackName>,
    ) -> Result<(), PackError> {
        let whole = self.shortened.as_ref().and_then(|rounds| rounds.lock().remove(&shard));
        let round = whole.filter(|whole| whole.from == round.from).unwrap_or(round);
        self.ask(shard, async |host: Host| host.commit_packs(shard, round, packs).await).await
    }

    async fn trim(&self, shard: ShardId) -> Result<usize, PackError> {
        self.ask(shard, async |host: Host| host.trim(shard).await).await
    }

    async fn deletable(&self, shard: ShardId, after: LogSeq) -> Result<Deletable, PackError> {
        self.ask(shard, async |host: Host| host.deletable(shard, after).await).await
    }

    async fn note_deleted(&self, shard: ShardId, gone: Deletable) -> Result<(), PackError> {
        self.ask(shard, async |host: Host| host.note_deleted(shard, gone).await).await
    }

    async fn known_packs(&self, shard: ShardId, packs: Vec<PackName>) -> Result<Vec<PackName>, PackError> {
        self.ask(shard, async |host: Host| host.known_packs(shard, packs).await).await
    }

    async fn unpacked_bytes(&self, shard: ShardId) -> Result<u64, PackError> {
        self.ask(shard, async |host: Host| host.unpacked_bytes(shard).await).await
    }

    async fn remains(&self, shard: ShardId, dropped: Vec<Dropped>) -> Result<Vec<Dropped>, PackError> {
        self.ask(shard, async |host: Host| host.remains(shard, dropped).await).await
    }
}
