//! Which gateway is to have which shard.
//!
//! A pure function of the gateways that are there, so that all of them come to the same answer without asking anybody. Two that see
//! different members for a moment want the same shard at once; the claim in the meta store decides between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wadi_meta::followed::Entries;
use wadi_model::ShardId;
use xxhash_rust::xxh3::xxh3_64;

/// Under which gateways announce themselves in the meta store.
pub const GATEWAYS: &str = "gateways";

/// What a gateway says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where it answers.
    pub address: String,
    /// Whether it gives its shards away, because it is about to end.
    pub leaving: bool,
}

/// The gateways that are there, and the one that is to have each shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    members: BTreeMap<String, Member>,
    /// By shard.
    wanted: Vec<Option<String>>,
}

impl Assignment {
    /// The assignment among the members that the meta store names. Those that leave get shards only if nobody stays.
    pub(super) fn of(shards: u32, entries: &Entries) -> Assignment {
        let member = |(id, entry): (&String, &wadi_meta::KeyValue)| {
            Some((id.clone(), serde_json::from_slice::<Member>(&entry.value).ok()?))
        };
        let members: BTreeMap<String, Member> = entries.iter().filter_map(member).collect();
        let ids = |all: bool| -> Vec<&str> {
            let may = members.iter().filter(|(_, member)| all || !member.leaving);
            may.map(|(id, _)| id.as_str()).collect()
        };
        let staying = ids(false);
        let candidates = if staying.is_empty() { ids(true) } else { staying };
        let wanted = spread(shards, &candidates)
            .into_iter()
            .map(|at| at.map(|at| candidates[at].to_owned()))
            .collect();
        Assignment { members, wanted }
    }

    /// The gateway that is to have a shard; `None` as long as nobody is there.
    pub(super) fn wanted(&self, shard: ShardId) -> Option<&str> {
        self.wanted.get(shard.0 as usize)?.as_deref()
    }

    /// The gateways that are there.
    pub(super) fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }
}

/// For each shard the place of its gateway. Each shard is drawn to each gateway by a hash of both; the strongest pair is made first,
/// as long as the gateway has room. All have the same number of shards, or one more or less, and few shards move when a gateway comes
/// or goes.
fn spread(shards: u32, gateways: &[&str]) -> Vec<Option<usize>> {
    let mut wanted = vec![None; shards as usize];
    let Some(each) = (shards as usize).checked_div(gateways.len()) else { return wanted };
    let mut more = shards as usize % gateways.len();
    let mut pairs = Vec::with_capacity(wanted.len() * gateways.len());
    for (at, gateway) in gateways.iter().enumerate() {
        for shard in 0..shards {
            let pull = xxh3_64(&[gateway.as_bytes(), &shard.to_be_bytes()].concat());
            pairs.push((pull, shard as usize, at));
        }
    }
    pairs.sort_unstable_by(|a, b| b.cmp(a));
    let mut loads = vec![0; gateways.len()];
    for (_, shard, at) in pairs {
        if wanted[shard].is_some() || loads[at] > each || (loads[at] == each && more == 0) {
            continue;
        }
        if loads[at] == each {
            more -= 1;
        }
        loads[at] += 1;
        wanted[shard] = Some(at);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use wadi_meta::{KeyValue, Revision};

    use super::*;

    fn names(count: usize, salt: u64) -> Vec<String> {
        let mut names: Vec<String> =
            (0..count as u64).map(|n| format!("{:016x}", xxh3_64(&(n + salt).to_be_bytes()))).collect();
        names.sort();
        names
    }

    fn spread_over(shards: u32, gateways: &[String]) -> Vec<String> {
        let ids: Vec<&str> = gateways.iter().map(String::as_str).collect();
        spread(shards, &ids).into_iter().map(|at| gateways[at.unwrap()].clone()).collect()
    }

    proptest! {
        #[test]
        fn every_shard_has_a_gateway_and_no_gateway_has_two_more_than_another(
            shards in 1u32..200, count in 1usize..40, salt in any::<u64>()
        ) {
            let gateways = names(count, salt >> 1);
            let wanted = spread_over(shards, &gateways);
            let loads: Vec<usize> =
                gateways.iter().map(|g| wanted.iter().filter(|w| *w == g).count()).collect();
            prop_assert_eq!(loads.iter().sum::<usize>(), shards as usize);
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
        }
    }

    #[test]
    fn few_shards_move_when_a_gateway_comes() {
        let (shards, mut moved, mut needed) = (64, 0, 0);
        for salt in 0..50 {
            let all = names(4, salt * 1000);
            let before = spread_over(shards, &all[..3]);
            let after = spread_over(shards, &all);
            moved += before.iter().zip(&after).filter(|(b, a)| b != a).count();
            needed += after.iter().filter(|a| **a == all[3]).count();
        }
        assert!(moved < 2 * needed, "{moved} moved, {needed} needed to");
        // Measured: about 1.5 times what must move, the price of even loads.
        assert!(moved > needed, "even loads cannot be had for less");
    }

    fn entries(members: &[(&str, bool)]) -> Entries {
        let entry = |(id, leaving): &(&str, bool)| {
            let member = Member { address: format!("http://{id}"), leaving: *leaving };
            let value: Bytes = serde_json::to_vec(&member).unwrap().into();
            let at = Revision(1);
            ((*id).to_owned(), KeyValue { key: format!("gateways/{id}"), value, created: at, modified: at })
        };
        members.iter().map(entry).collect()
    }

    #[test]
    fn who_leaves_gets_nothing_unless_nobody_stays() {
        let both = Assignment::of(8, &entries(&[("a", false), ("b", true)]));
        assert!((0..8).all(|shard| both.wanted(ShardId(shard)) == Some("a")));
        assert_eq!(both.members().len(), 2);
        let last = Assignment::of(8, &entries(&[("b", true)]));
        assert!((0..8).all(|shard| last.wanted(ShardId(shard)) == Some("b")));
        assert_eq!(Assignment::of(8, &entries(&[])).wanted(ShardId(0)), None);
        assert_eq!(last.wanted(ShardId(8)), None, "there is no such shard");
    }
}
