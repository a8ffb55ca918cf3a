"""Unique visitors: how many different people saw each page on each day, exactly, and for any union of pages and days.

Visitors have names; bitmaps want small numbers. A table with an auto-increment column turns one into the other: a lookup with
`insert_if_not_exists=true` gives a name the next id if it has none yet. A second table unites bitmaps of ids by page and day (merge
engine `aggregation`, function `rbm32`). Three workers take in events at the same time, with many visitors in common; nobody
keeps a set of visitors anywhere else.

    examples/unique_visitors.py http://localhost:8080
"""

import random
import struct
import sys
import threading

import pyarrow as pa
from wadi import Wadi, table_of

WORKERS = 3
VISITORS = 20_000
PAGES = ["home", "search", "product", "cart"]
DAYS = ["2026-11-01", "2026-11-02", "2026-11-03"]
NAME = pa.schema([("name", pa.string())])
SEEN = pa.schema([("day", pa.string()), ("page", pa.string()), ("visitors", pa.binary()), ("events", pa.int64())])


def streams(seed):
    """For each worker batches of events: day, page, name."""
    rng = random.Random(seed)
    # Few visitors come often.
    visitor = lambda: f"visitor-{int(VISITORS * rng.random() ** 3)}"
    event = lambda: (rng.choice(DAYS), PAGES[min(int(rng.expovariate(1)), 3)], visitor())
    return [[[event() for _ in range(800)] for _ in range(8)] for _ in range(WORKERS)]


def bitmap(ids):
    """Numbers as a Roaring bitmap in the portable format: by their upper 16 bits, arrays of the lower ones."""
    containers = {}
    for number in sorted(set(ids)):
        containers.setdefault(number >> 16, []).append(number & 0xFFFF)
    assert all(len(values) <= 4096 for values in containers.values()), "larger containers are no arrays"
    head = struct.pack("<II", 12346, len(containers))
    keys = b"".join(struct.pack("<HH", key, len(values) - 1) for key, values in containers.items())
    places, at = b"", len(head) + len(keys) + 4 * len(containers)
    for values in containers.values():
        places += struct.pack("<I", at)
        at += 2 * len(values)
    return head + keys + places + b"".join(struct.pack(f"<{len(v)}H", *v) for v in containers.values())


def cardinality(bitmap):
    """How many numbers a Roaring bitmap has: its head says it for each container."""
    cookie, = struct.unpack_from("<I", bitmap)
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        at = 4 + (count + 7) // 8
    else:
        count, = struct.unpack_from("<I", bitmap, 4)
        at = 8
    return sum(struct.unpack_from("<H", bitmap, at + 4 * n + 2)[0] + 1 for n in range(count))


def work(url, worker, batches):
    wadi = Wadi(url)
    for number, events in enumerate(batches):
        names = sorted({name for _, _, name in events})
        found = wadi.lookup("web.visitors", table_of([(name,) for name in names], NAME), insert=True)
        ids = dict(zip(found["name"].to_pylist(), found["id"].to_pylist()))
        groups = {}
        for day, page, name in events:
            groups.setdefault((day, page), []).append(ids[name])
        rows = [(day, page, bitmap(group), len(group)) for (day, page), group in groups.items()]
        # The key makes a retry count once.
        wadi.upsert("web.pages", table_of(rows, SEEN), key=f"worker-{worker}-{number}")


def main(url):
    wadi = Wadi(url)
    wadi.create("web", "visitors", "name string, id int", ["name"], buckets=3, auto_increment=["id"])
    properties = {"table.merge-engine": "aggregation", "fields.visitors.agg": "rbm32", "fields.events.agg": "sum"}
    seen = "day string, page string, visitors bytes, events bigint"
    wadi.create("web", "pages", seen, ["day", "page"], buckets=2, properties=properties)
    streamed = streams(seed=11)
    workers = [threading.Thread(target=work, args=(url, *numbered)) for numbered in enumerate(streamed)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    expected = {}
    for day, page, name in (event for batches in streamed for batch in batches for event in batch):
        names, events = expected.setdefault((day, page), (set(), []))
        names.add(name)
        events.append(name)
    expected = {key: (len(names), len(events)) for key, (names, events) in expected.items()}
    found = wadi.scan("web.pages")
    rows = zip(*(found[name].to_pylist() for name in ["day", "page", "visitors", "events"]))
    counted = {(day, page): (cardinality(visitors), events) for day, page, visitors, events in rows}
    assert counted == expected, f"{counted} are not {expected}"
    visitors = wadi.scan("web.visitors")
    names, ids = (visitors[name].to_pylist() for name in ["name", "id"])
    everyone = {name for batches in streamed for batch in batches for _, _, name in batch}
    assert set(names) == everyone and len(names) == len(everyone), "each visitor has one row"
    assert len(set(ids)) == len(ids), "no id is handed out twice"
    print(f"{len(names)} visitors on {len(counted)} pages and days: the counts are exact")


main(sys.argv[1])
