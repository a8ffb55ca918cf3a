//! A server process and a plain HTTP client for it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// How long anything may take that has no reason to take long. Only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const NDJSON: &str = "application/x-ndjson";
pub(crate) const JSON: &str = "application/json";
pub(crate) const CSV: &str = "text/csv";
pub(crate) const ARROW: &str = "application/vnd.apache.arrow.stream";
pub(crate) const PARQUET: &str = "application/vnd.apache.parquet";

/// A child process that does not outlive its handle.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a program; what it says goes to a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> std::io::Result<Process> {
        let file = std::fs::File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        Ok(Process { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name (`STOP`, `CONT`, `TERM`).
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.unwrap().success(), "kill -{name} {}", self.pid());
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The exit code, if it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ends(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(code) = self.exit_code() {
                return code;
            }
            assert!(Instant::now() < deadline, "process {} does not end", self.pid());
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a server is started, again and again.
#[derive(Debug)]
pub(crate) struct Setup {
    directory: TempDir,
    verb: &'static str,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// Runs in front of the server, in a shell: `ulimit -f 100`.
    before: Option<String>,
}

impl Setup {
    fn of(verb: &'static str) -> Setup {
        let directory = tempfile::tempdir().unwrap();
        Setup { directory, verb, args: Vec::new(), env: Vec::new(), before: None }
    }

    /// `wadi dev` on a directory of its own.
    pub(crate) fn dev() -> Setup {
        let setup = Setup::of("dev");
        let data = setup.data().display().to_string();
        setup.args(&["--data-dir", &data])
    }

    /// `wadi dev` on the directory of another setup.
    pub(crate) fn dev_on(data: &Path) -> Setup {
        Setup::of("dev").args(&["--data-dir", &data.display().to_string()])
    }

    /// `wadi gateway` with these flags, with spaces between.
    pub(crate) fn gateway(flags: &str) -> Setup {
        Setup::of("gateway").args(&flags.split(' ').collect::<Vec<_>>())
    }

    /// `wadi compactor` with these flags.
    pub(crate) fn compactor(flags: &str) -> Setup {
        Setup::of("compactor").args(&flags.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn args(mut self, more: &[&str]) -> Setup {
        self.args.extend(more.iter().map(|arg| (*arg).to_owned()));
        self
    }

    pub(crate) fn env(mut self, more: &[(&str, &str)]) -> Setup {
        self.env.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    pub(crate) fn before(mut self, shell: &str) -> Setup {
        self.before = Some(shell.to_owned());
        self
    }

    /// The data directory of a `dev` setup.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts the process and does not wait for anything.
    pub(crate) fn spawn(&self) -> Process {
        let address = self.directory.path().join("address");
        let _ = std::fs::remove_file(&address);
        let mut command = match &self.before {
            None => Command::new(env!("CARGO_BIN_EXE_wadi")),
            Some(before) => {
                let mut shell = Command::new("bash");
                shell.arg("-c").arg(format!("{before}; exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_wadi"));
                shell
            }
        };
        command
            .arg(self.verb)
            .args(["--listen", "127.0.0.1:0", "--address-file"])
            .arg(&address)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.directory.path());
        Process::start(&mut command, &self.directory.path().join("log")).unwrap()
    }

    /// Where the spawned process listens, if it does by now.
    pub(crate) fn told_address(&self) -> Option<String> {
        let url = std::fs::read_to_string(self.directory.path().join("address")).ok()?;
        url.ends_with('\n').then(|| url.trim().to_owned())
    }

    /// Leaves the directory, with the log in it, when the test ends.
    pub(crate) fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    /// Where a spawned process listens, as soon as it does.
    pub(crate) async fn address(&self, process: &mut Process) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(url) = self.told_address() {
                return url;
            }
            let code = process.exit_code();
            assert!(code.is_none(), "the server ended with {code:?}:\n{}", self.log());
            assert!(Instant::now() < deadline, "the server does not listen:\n{}", self.log());
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts a server and waits until it answers.
    pub(crate) async fn listening(&self) -> Server {
        let mut process = self.spawn();
        let api = Api::new(&self.address(&mut process).await);
        Server { process, api, _setup: None }
    }

    /// Starts a server and waits until it owns all shards.
    pub(crate) async fn ready(&self) -> Server {
        let server = self.listening().await;
        server.api.until_ready().await;
        server
    }

    /// [`Setup::ready`] for a server that is started once.
    pub(crate) async fn into_ready(self) -> Server {
        let server = self.ready().await;
        Server { _setup: Some(self), ..server }
    }
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) api: Api,
    /// Keeps the directory of [`Setup::into_ready`].
    _setup: Option<Setup>,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// The document of an error answer, whose shape is checked: all members, and the same in head and body.
    #[track_caller]
    pub(crate) fn problem(&self) -> Value {
        assert!(self.status >= 400, "no error: {self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert_eq!(problem["request_id"], self.header("x-request-id"), "{problem}");
        for text in ["type", "title", "detail", "code", "request_id"] {
            assert!(problem[text].as_str().is_some_and(|t| !t.is_empty()), "{text} of {problem}");
        }
        let code = problem["code"].as_str().unwrap();
        assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code}");
        assert!(problem["type"].as_str().unwrap().ends_with(code), "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        let side_effects = problem["side_effects"].as_str().unwrap();
        assert!(["none", "partial", "unknown"].contains(&side_effects), "{problem}");
        if self.status == 429 {
            assert!(self.header("retry-after").parse::<u32>().is_ok(), "{self:?}");
        }
        problem
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
}

impl Api {
    pub(crate) fn new(url: &str) -> Api {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Api { http, url: url.to_owned() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await.unwrap()
    }

    /// A GET with an `Accept` header.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        send(self.request(Method::GET, path).header("accept", accept)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, content_type: &str, body: impl Into<Bytes>) -> Answer {
        self.post_with(path, content_type, &[], body).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        content_type: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = self.request(Method::POST, path).header("content-type", content_type);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(request.body(body.into())).await.unwrap()
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        send(self.request(method, path).json(body)).await.unwrap()
    }

    pub(crate) async fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = send(self.request(Method::GET, "/ready")).await;
            if answer.as_ref().is_ok_and(|a| a.status == 200) {
                return;
            }
            assert!(Instant::now() < deadline, "not ready: {answer:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Makes the database `t`.
    pub(crate) async fn create_database(&self) {
        self.call(Method::POST, "/v1/databases", &serde_json::json!({ "name": "t" })).await.expect(201);
    }

    /// Makes a table in `t`; gives its path.
    pub(crate) async fn create_table(&self, spec: &Value) -> String {
        self.call(Method::POST, "/v1/databases/t/tables", spec).await.expect(201);
        format!("/v1/databases/t/tables/{}", spec["name"].as_str().unwrap())
    }

    /// The rows that a scan finds, as JSON.
    pub(crate) async fn scan(&self, table: &str, query: &str) -> Vec<Value> {
        let answer = self.get(&format!("{table}/scan{query}")).await.expect(200);
        answer.json()["rows"].as_array().unwrap().clone()
    }

    /// All rows of a bucket with their offsets, page by page.
    pub(crate) async fn log(&self, table: &str, bucket: u64, columns: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut offset = 0;
        loop {
            let path =
                format!("{table}/log?bucket={bucket}&offset={offset}&columns={columns},_offset&max_rows=500");
            let answer = self.get(&path).await.expect(200).json();
            rows.extend(answer["rows"].as_array().unwrap().iter().cloned());
            let next = answer["next_offset"].as_u64().unwrap();
            if next == answer["high_watermark"].as_u64().unwrap() {
                return rows;
            }
            assert!(next > offset, "a read that does not go on: {answer}");
            offset = next;
        }
    }
}

/// Sends a request and reads the answer whole.
pub(crate) async fn send(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let answer = answered(request).await;
    if let Err(error) = &answer
        && error.is_timeout()
    {
        println!("    no answer within {PATIENCE:?}: {error}");
    }
    answer
}

async fn answered(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.timeout(PATIENCE).send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { status, headers, body: response.bytes().await? })
}
