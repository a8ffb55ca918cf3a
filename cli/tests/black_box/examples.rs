//! The programs of `examples/` against a server: each checks its own result.

use std::path::Path;
use std::process::{Output, Stdio};

use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::{PATIENCE, Setup};
use crate::peers::of_environment;

async fn run(example: &str) -> String {
    let server = Setup::dev().into_ready().await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = of_environment("python");
    let mut command = Command::new(&python);
    command
        .arg(root.join("examples").join(example))
        .arg(&server.api.url)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let install = format!("{} cannot be run; `make tools` installs it", python.display());
    let Output { status, stdout, stderr } =
        timeout(PATIENCE, command.output()).await.expect("the example does not end").expect(&install);
    assert!(status.success(), "{example}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_attributed_to_visits_while_both_stream_in() {
    let said = run("attribution.py").await;
    assert!(said.contains("equal to the batch join"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unique_visitors_are_counted_exactly_by_three_workers() {
    let said = run("unique_visitors.py").await;
    assert!(said.contains("the counts are exact"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_producers_fill_a_wide_table_and_wait_for_nobody() {
    let said = run("wide_table.py").await;
    assert!(said.contains("equal to the full join"), "{said}");
}
