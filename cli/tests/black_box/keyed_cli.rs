//! The commands for tables with a primary key, against a real server.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::wadi;
use crate::harness::{Server, Setup};

struct Shell {
    server: Server,
    directory: TempDir,
}

impl Shell {
    async fn new() -> Shell {
        let shell =
            Shell { server: Setup::dev().into_ready().await, directory: tempfile::tempdir().unwrap() };
        shell.succeed("database create t");
        shell
    }

    /// Runs a command line; `|` stands for a space inside an argument.
    fn run(&self, line: &str) -> Output {
        let args: Vec<String> = line.split(' ').map(|arg| arg.replace('|', " ")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        wadi(self.directory.path(), &args, &[("WADI_URL", &self.server.api.url)]).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit code and what is said on stderr.
    fn fail(&self, line: &str) -> (i32, String) {
        let output = self.run(line);
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}: {output:?}");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(Path::new(self.directory.path()).join(name), text).unwrap();
    }

    fn rows(&self, line: &str) -> Vec<Value> {
        self.succeed(line).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_key_is_made_filled_looked_up_and_emptied() {
    let shell = Shell::new().await;
    let columns = "user|bigint,|order|string,|price|int,|note|string,|primary|key|(user,|`order`)";
    shell.succeed(&format!("table create t.orders --columns {columns} --bucket-key user --buckets 2"));
    let shown = shell.succeed("table show t.orders");
    for fact in ["primary key  ", "user, order", "merge engine  ", "default", "kind", "primary_key"] {
        assert!(shown.contains(fact), "{fact:?} is missing in\n{shown}");
    }

    // Many small requests: the last row of a key wins, in the order of the file.
    let rows: String = (0..600)
        .map(|n| format!("{{\"user\":{},\"order\":\"o{}\",\"price\":{n}}}\n", n % 3, n % 30))
        .collect();
    shell.file("orders.ndjson", &rows);
    let summary: Value =
        serde_json::from_str(&shell.succeed("--json ingest t.orders orders.ndjson --piece-size 1KiB"))
            .unwrap();
    assert_eq!(summary["rows"], 600);
    let found = shell.rows("--json scan t.orders");
    assert_eq!(found.len(), 30);
    assert!(found.iter().all(|row| row["price"].as_u64().unwrap() >= 570), "{found:?}");

    shell.file("notes.csv", "user,order,note\n1,o1,\"a, b\"\n7,new,x\n");
    shell.succeed("ingest t.orders notes.csv --columns user,order,note");
    let row = shell.rows("lookup t.orders user=1 order=o1 --format ndjson");
    assert_eq!(row, [json!({ "user": 1, "order": "o1", "price": 571, "note": "a, b" })]);
    let prefix = shell.rows("--json lookup t.orders user=7 --columns price,note");
    assert_eq!(prefix, [json!({ "price": null, "note": "x" })]);
    assert!(shell.succeed("lookup t.orders order=o1 user=1").contains("a, b"));

    shell.succeed("table create t.users --columns uid|string,|id|int --primary-key uid --auto-increment id");
    for _ in 0..2 {
        let row = shell.rows("--json lookup t.users uid=ann --insert-if-not-exists");
        assert_eq!(row, [json!({ "uid": "ann", "id": 1 })]);
    }
    assert_eq!(shell.rows("--json lookup t.users uid=ann --columns id"), [json!({ "id": 1 })]);

    let (code, said) = shell.fail("lookup t.orders user=1 order=o2");
    assert!(code == 1 && said.contains("t.orders has no row of user=1 order=o2"), "{said}");
    let (code, said) = shell.fail("lookup t.orders order=o1");
    assert!(code == 1 && said.contains("prefix (user)"), "{said}");
    let (code, said) = shell.fail("lookup t.orders user");
    assert!(code == 2 && said.contains("column=value"), "{said}");

    let deleted = |line: &str| shell.run(line).stderr;
    assert_eq!(deleted("delete t.orders user=1 order=o1"), b"row user=1 order=o1: deleted\n");
    assert_eq!(deleted("delete t.orders user=1 order=o1"), b"row user=1 order=o1: unchanged\n");
    let said = shell.succeed("--json delete t.orders user=7 order=new --columns user,order,note");
    assert!(said.contains("deleted"), "{said}");
    assert_eq!(shell.rows("--json scan t.orders").len(), 29, "the row had nothing but its note");

    shell.file("keys.csv", "user,order\n0,o0\n0,o3\n2,o2\n");
    shell.succeed("ingest t.orders keys.csv --delete");
    assert_eq!(shell.rows("--json scan t.orders").len(), 26);
    // To do another thing with the rows of the same file is a run of its own.
    shell.succeed("ingest t.orders keys.csv");
    assert_eq!(shell.rows("--json scan t.orders").len(), 29);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_table_cannot_do_is_said_before_rows_are_sent() {
    let shell = Shell::new().await;
    shell.succeed("table create t.log --columns a|int");
    shell.file("a.csv", "a\n1\n");
    for line in ["ingest t.log a.csv --delete", "ingest t.log a.csv --columns a"] {
        let (code, said) = shell.fail(line);
        assert!(code == 2 && said.contains("log table"), "{line}: {said}");
    }
    assert!(shell.rows("--json scan t.log").is_empty());
    let twice = "table create t.x --columns a|int,|primary|key|(a) --primary-key a";
    assert_eq!(shell.fail(twice).0, 2);
    let wrong = "table create t.x --columns a|int,|b|int --primary-key b --auto-increment c --dry-run";
    let (code, said) = shell.fail(wrong);
    assert!(code == 2 && said.contains("\"c\""), "{said}");
    let dry =
        shell.succeed("table create t.x --columns a|int,|b|int --primary-key b --auto-increment a --dry-run");
    assert!(dry.contains("primary key (b)") && dry.contains("'auto-increment.fields' = 'a'"), "{dry}");
}
