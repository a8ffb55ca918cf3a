//! A load balancer as simple as there is: each connection goes to the next backend, and to the one after that if it is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// A balancer on loopback. It ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Balancer {
    url: String,
    backends: Arc<Mutex<Vec<String>>>,
}

impl Balancer {
    /// In front of these URLs.
    pub(crate) async fn of(urls: &[&str]) -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let balancer = Balancer { url, backends: Arc::default() };
        balancer.set(urls);
        let (backends, turn) = (balancer.backends.clone(), Arc::new(AtomicUsize::new(0)));
        let serve = async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (backends, turn) = (backends.clone(), turn.clone());
                let pass = async move {
                    let first = turn.fetch_add(1, Ordering::Relaxed);
                    let all = backends.lock().unwrap().clone();
                    for at in 0..all.len() {
                        if let Ok(mut backend) = TcpStream::connect(&all[(first + at) % all.len()]).await {
                            // A connection that breaks is seen at both ends.
                            let _ = copy_bidirectional(&mut client, &mut backend).await;
                            return;
                        }
                    }
                };
                #[allow(clippy::disallowed_methods, reason = "the balancer of a test")]
                tokio::spawn(pass);
            }
        };
        #[allow(clippy::disallowed_methods, reason = "the balancer of a test")]
        tokio::spawn(serve);
        balancer
    }

    /// Other backends from now on.
    pub(crate) fn set(&self, urls: &[&str]) {
        let addresses = urls.iter().map(|url| url.trim_start_matches("http://").trim_end().to_owned());
        *self.backends.lock().unwrap() = addresses.collect();
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}
