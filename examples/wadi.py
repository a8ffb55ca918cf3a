"""The few calls of Wadi's HTTP API that the examples need, over the standard library and pyarrow."""

import http.client
import io
import json
import urllib.parse

import pyarrow as pa
import pyarrow.ipc as ipc

ARROW = "application/vnd.apache.arrow.stream"


class Wadi:
    """A connection to a server. Not for several threads at once: each makes its own."""

    def __init__(self, url):
        self.host = urllib.parse.urlparse(url).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=60)

    def call(self, method, path, body=None, content_type="application/json", accept="application/json", key=None):
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        if key is not None:
            headers["Idempotency-Key"] = key
        self.connection.request(method, f"/v1/databases{path}", body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.decode()}")
        return answer.headers, content

    def create(self, database, table, columns, primary_key, **more):
        """Makes a table, and its database if it is not there. `columns` is `name type, name type`."""
        names = [column.strip().split(" ", 1) for column in columns.split(",")]
        spec = {
            "name": table,
            "columns": [{"name": name, "type": kind} for name, kind in names],
            "primary_key": primary_key,
            **more,
        }
        self.call("POST", "", json.dumps({"name": database, "if_not_exists": True}))
        self.call("POST", f"/{database}/tables", json.dumps(spec))

    def upsert(self, table, rows, columns=None, key=None):
        """Writes the rows of a pyarrow table; with `columns` a partial update."""
        query = f"?columns={','.join(columns)}" if columns else ""
        path = f"/{table.replace('.', '/tables/')}/upsert{query}"
        _, content = self.call("POST", path, to_stream(rows), ARROW, key=key)
        return json.loads(content)

    def lookup(self, table, keys, insert=False):
        """The rows of keys, or of prefixes of keys, as a pyarrow table; with `insert` keys without a row get one."""
        query = "?insert_if_not_exists=true" if insert else ""
        path = f"/{table.replace('.', '/tables/')}/lookup{query}"
        _, content = self.call("POST", path, to_stream(keys), ARROW, ARROW)
        return from_stream(content)

    def log(self, table, bucket, offset, wait_ms=0):
        """The changes of a bucket from an offset on, and the offset behind them."""
        query = f"?bucket={bucket}&offset={offset}&wait_ms={wait_ms}"
        headers, content = self.call("GET", f"/{table.replace('.', '/tables/')}/log{query}", accept=ARROW)
        return from_stream(content), int(headers["Wadi-Next-Offset"])

    def offsets(self, table):
        """The offset behind the newest change of each bucket."""
        _, content = self.call("GET", f"/{table.replace('.', '/tables/')}/offsets?at=latest")
        return {offset["bucket"]: offset["offset"] for offset in json.loads(content)["offsets"]}

    def scan(self, table):
        """All rows there are now."""
        _, content = self.call("GET", f"/{table.replace('.', '/tables/')}/scan", accept=ARROW)
        return from_stream(content)


def to_stream(rows):
    out = io.BytesIO()
    with ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows)
    return out.getvalue()


def from_stream(content):
    return ipc.open_stream(content).read_all()


def table_of(rows, schema):
    """A pyarrow table of tuples."""
    columns = zip(*rows) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)
