use super::*;

const TTL: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_deadline_lies_a_margin_before_the_ttl_of_the_last_proof() {
    let start = Instant::now();
    let lease = Lease::new(TTL, start);
    assert_eq!(lease.deadline(), start + Duration::from_secs(8));
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(lease.renew(start + Duration::from_secs(2)));
    assert_eq!(lease.deadline(), start + Duration::from_secs(10));
    // A late answer to an earlier request takes nothing away.
    assert!(lease.renew(start + Duration::from_secs(1)));
    assert_eq!(lease.deadline(), start + Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_never_comes_back() {
    let lease = Lease::new(TTL, Instant::now());
    tokio::time::advance(Duration::from_secs(8)).await;
    assert!(lease.is_lost());
    assert!(!lease.renew(Instant::now()));
    assert!(lease.hold(SessionId(1)).is_err());
    lease.lost().await;
}

#[tokio::test(start_paused = true)]
async fn lost_waits_for_the_deadline_as_it_is_renewed() {
    let start = Instant::now();
    let lease = Lease::new(TTL, start);
    let (waited, ()) = tokio::join!(
        async {
            lease.lost().await;
            Instant::now() - start
        },
        async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(lease.renew(Instant::now()));
        }
    );
    assert_eq!(waited.as_secs(), 13);
}

#[test]
fn short_sessions_have_a_short_margin() {
    assert_eq!(margin(Duration::from_secs(1)), Duration::from_millis(200));
    assert_eq!(margin(Duration::from_secs(60)), Duration::from_secs(2));
}

#[test]
fn a_ttl_out_of_bounds_is_refused() {
    assert!(validate_ttl(Duration::from_millis(99)).is_err());
    assert!(validate_ttl(Duration::from_secs(3601)).is_err());
    assert!(validate_ttl(TTL).is_ok());
}
