//! A link from one process to another: a TCP proxy whose connections can be cut, frozen and slowed down, and which can lead elsewhere.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// What a link does with bytes at once.
const PIECE: usize = 64 << 10;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) enum Weather {
    #[default]
    Fair,
    /// Connections are reset, and so are new ones.
    Cut,
    /// No byte passes. Connections stay open, new ones are taken and lead nowhere; all go on afterwards.
    Frozen,
    /// Each piece comes so much later.
    Slow(Duration),
    /// So many bytes per second pass in each direction of a connection.
    Narrow(u64),
}

#[derive(Clone, Debug)]
struct State {
    /// Where connections go.
    to: String,
    weather: Weather,
    /// How often all connections were reset.
    resets: u32,
}

/// A link on loopback. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    url: String,
    state: Arc<watch::Sender<State>>,
}

impl Link {
    /// A link to a server's URL.
    pub(crate) async fn to(url: &str) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = State { to: address(url), weather: Weather::Fair, resets: 0 };
        let link = Link {
            url: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::new(watch::Sender::new(state)),
        };
        let state = link.state.clone();
        let serve = async move {
            while let Ok((near, _)) = listener.accept().await {
                #[allow(clippy::disallowed_methods, reason = "the link of a test")]
                tokio::spawn(carry(near, state.subscribe()));
            }
        };
        #[allow(clippy::disallowed_methods, reason = "the link of a test")]
        tokio::spawn(serve);
        link
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Leads new connections to another server from now on.
    pub(crate) fn lead_to(&self, url: &str) {
        self.state.send_modify(|state| state.to = address(url));
    }

    /// Resets all connections, once.
    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.resets += 1);
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.state.send_modify(|state| state.weather = weather);
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

async fn carry(mut near: TcpStream, mut state: watch::Receiver<State>) {
    let resets = state.borrow().resets;
    let mut far = None;
    let carried = carry_between(&mut near, &mut far, state.clone());
    let whole = tokio::select! {
        biased;
        _ = state.wait_for(|s| s.weather == Weather::Cut || s.resets != resets) => false,
        carried = carried => carried.is_ok(),
    };
    if !whole {
        for end in [Some(near), far].into_iter().flatten() {
            let _ = end.set_zero_linger();
        }
    }
}

async fn carry_between(
    near: &mut TcpStream,
    far: &mut Option<TcpStream>,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    passable(&mut state).await;
    let to = state.borrow().to.clone();
    let far = far.insert(TcpStream::connect(to).await?);
    let (near_in, near_out) = near.split();
    let (far_in, far_out) = far.split();
    futures::future::try_join(pass(near_in, far_out, state.clone()), pass(far_in, near_out, state)).await?;
    Ok(())
}

/// Waits until bytes may pass, and gives the weather.
async fn passable(state: &mut watch::Receiver<State>) -> Weather {
    // A link that is gone lets pass what it has.
    state.wait_for(|s| s.weather != Weather::Frozen).await.map_or(Weather::Fair, |state| state.weather)
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let count = from.read(&mut buffer).await?;
        match passable(&mut state).await {
            Weather::Slow(delay) => sleep(delay).await,
            Weather::Narrow(rate) => sleep(Duration::from_secs_f64(count as f64 / rate as f64)).await,
            Weather::Fair | Weather::Cut | Weather::Frozen => {}
        }
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}
