//! A wire in front of a server that may change its address: its connections can be cut at any byte.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Where connections go, and how often they were cut.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    url: String,
    to: Arc<watch::Sender<String>>,
    cuts: Arc<watch::Sender<u32>>,
}

impl Wire {
    /// A wire to a server's URL. It ends with the test's runtime.
    pub(crate) async fn to(url: &str) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Wire {
            url: format!("http://{}", listener.local_addr().unwrap()),
            to: Arc::new(watch::Sender::new(url.to_owned())),
            cuts: Arc::default(),
        };
        let own = wire.clone();
        #[allow(clippy::disallowed_methods, reason = "the wire of a test")]
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(own.clone().carry(near));
            }
        });
        wire
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Leads to another server from now on.
    pub(crate) fn lead_to(&self, url: &str) {
        self.to.send_replace(url.to_owned());
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    async fn carry(self, mut near: TcpStream) {
        let mut cut = self.cuts.subscribe();
        cut.borrow_and_update();
        let to = self.to.borrow().trim_start_matches("http://").to_owned();
        let Ok(mut far) = TcpStream::connect(to).await else { return };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = cut.changed() => {}
        }
    }
}
