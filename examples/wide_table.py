"""A wide table: five producers fill their own columns of the same rows, each at its own speed.

Every producer sends partial updates (`upsert?columns=…`) of the key and its own columns; nobody waits for anybody, and nothing
joins the streams: the row is the join. One producer stalls for as long as the others work, and stalls none of them.

    examples/wide_table.py http://localhost:8080
"""

import random
import sys
import threading
import time

import pyarrow as pa
from wadi import Wadi, table_of

CUSTOMERS = 1_000
INT, TEXT = pa.int64(), pa.string()

# Producer, its columns, rows in a batch, batches, seconds between two batches.
PRODUCERS = [
    ("profile", [("name", TEXT), ("country", TEXT)], 250, 5, 0.0),
    ("orders", [("orders", INT), ("revenue", INT)], 100, 20, 0.05),
    ("clicks", [("last_page", TEXT)], 300, 20, 0.01),
    ("support", [("tickets", INT)], 20, 12, 0.2),
    ("credit", [("score", INT)], 200, 5, None),
]
STALLED = "credit"


def batches(name, columns, size, count):
    """What a producer sends: customers repeat, and then the newer values hold. Now and then a value is NULL."""
    rng = random.Random(f"wide table {name}")
    for number in range(count):
        customers = rng.sample(range(CUSTOMERS), size)
        value = lambda kind: None if rng.random() < 0.05 else rng.randrange(10_000) if kind == INT else f"{name} {rng.randrange(99)}"
        yield number, [(customer, *(value(kind) for _, kind in columns)) for customer in customers]


def full_join():
    """What the table must hold in the end."""
    rows = {}
    at = 1
    width = 1 + sum(len(columns) for _, columns, *_ in PRODUCERS)
    for name, columns, size, count, _ in PRODUCERS:
        for _, batch in batches(name, columns, size, count):
            for customer, *values in batch:
                row = rows.setdefault(customer, [customer] + [None] * (width - 1))
                row[at : at + len(columns)] = values
        at += len(columns)
    return sorted(map(tuple, rows.values()))


def main(url):
    wadi = Wadi(url)
    every = [column for _, columns, *_ in PRODUCERS for column in columns]
    types = ", ".join(f"{name} {'bigint' if kind == INT else 'string'}" for name, kind in every)
    wadi.create("crm", "customers", f"customer bigint, {types}", ["customer"], buckets=4)
    others_done = threading.Event()
    ended = {}

    def produce(name, columns, size, count, pause):
        connection = Wadi(url)
        schema = pa.schema([("customer", INT), *columns])
        for number, batch in batches(name, columns, size, count):
            if name == STALLED and number == 2:
                others_done.wait()
            connection.upsert("crm.customers", table_of(batch, schema), schema.names, key=f"{name}-{number}")
            time.sleep(pause or 0)
        ended[name] = time.monotonic()

    threads = {producer[0]: threading.Thread(target=produce, args=producer) for producer in PRODUCERS}
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        if name != STALLED:
            thread.join()
    assert STALLED not in ended, "the stalled producer was to wait"
    others_done.set()
    threads[STALLED].join()
    found = wadi.scan("crm.customers")
    rows = sorted(zip(*(found.column(name).to_pylist() for name in found.column_names)))
    expected = full_join()
    assert rows == expected, f"{len(rows)} rows, {len(expected)} expected"
    print(f"{len(rows)} rows of {len(every) + 1} columns from {len(PRODUCERS)} producers: equal to the full join")


main(sys.argv[1])
