//! Whether the other gateways reach this one at the address that it gives them: it asks itself there.
//!
//! A gateway with a wrong address, or one that is cut off, would own shards that nobody but its own clients gets at. It says that it is
//! unwell, and the others have them ([`Host::set_unreachable`]), unless none of them is better off. What it cannot see is an address
//! that leads here from this machine and from nowhere else.
//!
//! [`Host::set_unreachable`]: wadi_store::host::Host::set_unreachable

use std::time::Duration;

use axum::extract::State;
use tokio::time::{sleep, timeout};

use crate::app::Gateway;
use crate::internal::Own;

/// Where a gateway says who it is.
pub(crate) const ROUTE: &str = "/internal/v1/gateway";

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(10);

/// The same while it is not reached, so that it is back soon.
const SOON: Duration = Duration::from_secs(2);

/// How long an answer may take. A gateway that has too much to do is slow, not away.
const ANSWER: Duration = Duration::from_secs(10);

/// So many questions in a row must fail.
const FAILURES: u32 = 3;

/// Says who this is.
pub(crate) async fn answer(_: Own, State(gateway): State<Gateway>) -> String {
    gateway.host().gateway().to_owned()
}

/// Asks again and again, for ever.
pub(crate) async fn watch(gateway: Gateway, address: String) {
    // An address that was never right does not need three tries.
    let mut failed = FAILURES - 1;
    loop {
        let host = gateway.host();
        match ask(&gateway, &address).await {
            // It may have stopped listening already.
            Err(_) if host.is_leaving() => {}
            Ok(()) => {
                failed = 0;
                host.set_unreachable(None);
            }
            Err(why) => {
                failed = FAILURES.min(failed + 1);
                tracing::debug!(address, why, "this gateway is not reached at its address");
                if failed == FAILURES {
                    host.set_unreachable(Some(format!("it is not reached at {address}: {why}")));
                }
            }
        }
        sleep(if failed < FAILURES { PAUSE } else { SOON }).await;
    }
}

async fn ask(gateway: &Gateway, address: &str) -> Result<(), String> {
    let asked = gateway.forward().ask(address, ROUTE, gateway.secret());
    let answer = timeout(ANSWER, asked).await.map_err(|_| format!("no answer within {ANSWER:?}"))??;
    match answer == gateway.host().gateway() {
        true => Ok(()),
        false => Err("another process answers there".to_owned()),
    }
}
