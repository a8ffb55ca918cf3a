//! What every metadata store promises, checked on all of them; and what only one of them promises, beside it.
//!
//! Each check is written once, against the trait, and runs on a fresh store of each kind. The etcd ones start a real
//! `etcd`.

#![allow(clippy::unwrap_used)] // The lint's exception for tests does not reach their helpers.

mod drops;
mod embedded;
mod etcd;
mod etcd_server;
mod fixture;
mod object_store_probe;
mod reads;
mod sessions;
mod txns;
mod watches;

/// Runs checks, each a `async fn(Fixture)`, on a fresh store of each named kind.
macro_rules! conformance {
    ($kind:ident: $($module:ident::$check:ident),+ $(,)?) => {
        mod $kind {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    let fixture = crate::fixture::Fixture::$kind().await;
                    crate::fixture::in_time(crate::$module::$check(fixture)).await;
                }
            )+
        }
    };
}

macro_rules! every_store {
    ($($kind:ident),+) => {
        $(
            conformance!($kind:
                drops::a_forgotten_table_leaves_no_key_and_others_stay,
                txns::compares_decide,
                txns::a_transaction_is_all_or_nothing,
                txns::a_contended_counter_ends_exact,
                txns::revisions_grow_and_are_shared_by_one_transaction,
                txns::a_key_made_again_is_another_key,
                txns::deleting_nothing_changes_nothing,
                txns::odd_keys_and_values_come_back_as_they_were,
                txns::what_breaks_a_limit_is_refused,
                reads::a_list_is_one_moment,
                reads::a_long_list_is_whole_and_in_order,
                watches::each_change_is_seen_once_and_in_order,
                watches::a_watch_goes_on_where_another_stopped,
                watches::a_transaction_is_one_event,
                watches::a_dropped_wait_loses_nothing,
                watches::after_a_compaction_a_watch_is_reset,
                sessions::closing_a_session_deletes_its_keys_at_once,
                sessions::a_closed_session_holds_and_puts_nothing_for_ever,
                sessions::sessions_end_each_for_itself,
                sessions::an_untied_key_outlives_the_session,
                sessions::a_ttl_out_of_bounds_is_refused,
            );
        )+
    };
}

every_store!(memory, local, remote, etcd_cluster);

mod shared_by_processes {
    conformance!(memory: sessions::a_paused_process_loses_its_session_before_others_see_it);
    conformance!(etcd_cluster: sessions::a_paused_process_loses_its_session_before_others_see_it);
}
