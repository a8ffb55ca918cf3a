"""Attribution: which channel brought each order, kept current while orders and visits stream in.

Orders and visits are two primary-key tables, bucketed by user. A worker without any state of its own follows both changelogs;
for each user in them it looks up the user's orders and visits by prefix, and upserts one row per order: the order with the
channel of the newest visit before it. Visits that come late, orders that change and orders that are cancelled need no care: the
user is simply looked up again. How far the worker is stands in a table too, so another one goes on where it stopped.

No join state is kept anywhere: what a streaming join would hold in memory are the two tables.

    examples/attribution.py http://localhost:8080
"""

import random
import sys
import threading
import time

import pyarrow as pa
from wadi import Wadi, table_of

BUCKETS = 4
USERS = 200
CHANNELS = ["search", "mail", "social", "direct"]
VISIT = pa.schema([("user_id", pa.int64()), ("visit_id", pa.int64()), ("at", pa.int64()), ("channel", pa.string())])
ORDER = pa.schema([("user_id", pa.int64()), ("order_id", pa.int64()), ("at", pa.int64()), ("amount", pa.int64())])
CHANGE = ORDER.append(pa.field("_change_type", pa.string()))
RESULT = pa.schema([*ORDER, ("channel", pa.string()), ("visit_id", pa.int64()), ("_change_type", pa.string())])
DONE = pa.schema([("source", pa.string()), ("bucket", pa.int32()), ("next_offset", pa.int64())])


def streams(seed):
    """Batches of visits and of order changes. Times have little to do with the order in which things arrive."""
    rng = random.Random(seed)
    visits = [(rng.randrange(USERS), n, rng.randrange(100_000), rng.choice(CHANNELS)) for n in range(2_000)]
    orders = []
    for n in range(1_000):
        user, at = rng.randrange(USERS), rng.randrange(100_000)
        orders.append((n, (user, n, at, rng.randrange(1, 500), "+I")))
        if rng.random() < 0.2:
            orders.append((n + 50, (user, n, at, rng.randrange(1, 500), "+U")))
        if rng.random() < 0.1:
            orders.append((n + 100, (user, n, at, None, "-D")))
    orders = [order for _, order in sorted(orders, key=lambda timed: timed[0])]
    cut = lambda rows, size: [rows[at : at + size] for at in range(0, len(rows), size)]
    return cut(visits, 100), cut(orders, 60)


def attribute(order, visits):
    """The newest visit of the user that is not later than the order."""
    before = [(at, visit, channel) for _, visit, at, channel in visits if at <= order[2]]
    _, visit, channel = max(before, default=(None, None, None))
    return (*order, channel, visit)


def batch_join(visit_batches, order_batches):
    """What the result must be, from the whole streams at once."""
    orders = {}
    for *order, change in (order for batch in order_batches for order in batch):
        if change == "-D":
            orders.pop(order[1], None)
        else:
            orders[order[1]] = tuple(order)
    visits = {}
    for visit in (visit for batch in visit_batches for visit in batch):
        visits.setdefault(visit[0], []).append(visit)
    return sorted(attribute(order, visits.get(order[0], [])) for order in orders.values())


def rows_of(table):
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names)))


class Worker:
    """Follows the changelogs of `sources` until it is told to stop, or has done so many rounds."""

    sources = ["attribution.orders", "attribution.visits"]

    def __init__(self, url):
        self.wadi = Wadi(url)
        done = rows_of(self.wadi.scan("attribution.progress"))
        self.next = {(source, bucket): offset for source, bucket, offset in done}

    def round(self):
        """Takes in what has changed; whether anything had."""
        users, gone, ends = set(), {}, {}
        for source in self.sources:
            for bucket in range(BUCKETS):
                start = self.next.get((source, bucket), 0)
                changes, end = self.wadi.log(source, bucket, start)
                if end == start:
                    continue
                ends[source, bucket] = end
                users.update(changes["user_id"].to_pylist())
                if source == "attribution.orders":
                    ids = zip(*(changes[name].to_pylist() for name in ["user_id", "order_id", "_change_type"]))
                    gone.update({(user, order): None for user, order, change in ids if change == "-D"})
        if not ends:
            return False
        keys = pa.table({"user_id": pa.array(sorted(users), pa.int64())})
        visits = {}
        for visit in rows_of(self.wadi.lookup("attribution.visits", keys)):
            visits.setdefault(visit[0], []).append(visit)
        results = []
        for order in rows_of(self.wadi.lookup("attribution.orders", keys)):
            gone.pop(order[:2], None)
            results.append((*attribute(order, visits.get(order[0], [])), "+U"))
        results.extend((user, order, None, None, None, None, "-D") for user, order in gone)
        if results:
            self.wadi.upsert("attribution.attributed", table_of(results, RESULT))
        # Only now: whoever goes on from here has missed nothing. Doing a part twice gives the same rows.
        self.next.update(ends)
        done = [(source, bucket, end) for (source, bucket), end in ends.items()]
        self.wadi.upsert("attribution.progress", table_of(done, DONE))
        return True


def main(url):
    wadi = Wadi(url)
    by_user = {"bucket_key": ["user_id"], "buckets": BUCKETS}
    order = "user_id bigint, order_id bigint, at bigint, amount bigint"
    wadi.create("attribution", "orders", order, ["user_id", "order_id"], **by_user)
    wadi.create("attribution", "visits", "user_id bigint, visit_id bigint, at bigint, channel string", ["user_id", "visit_id"], **by_user)
    wadi.create("attribution", "attributed", f"{order}, channel string, visit_id bigint", ["user_id", "order_id"], **by_user)
    wadi.create("attribution", "progress", "source string, bucket int, next_offset bigint", ["source", "bucket"])
    visits, orders = streams(seed=7)

    def produce(table, batches, schema):
        connection = Wadi(url)
        for n, batch in enumerate(batches):
            connection.upsert(table, table_of(batch, schema), key=f"{table}-{n}")

    producers = [
        threading.Thread(target=produce, args=("attribution.visits", visits, VISIT)),
        threading.Thread(target=produce, args=("attribution.orders", orders, CHANGE)),
    ]
    for producer in producers:
        producer.start()
    worker, rounds = Worker(url), 0
    while True:
        running = any(producer.is_alive() for producer in producers)
        if worker.round():
            rounds += 1
            # A worker may die at any time; the next one finds where it was.
            if rounds % 5 == 0:
                worker = Worker(url)
        elif not running:
            break
        else:
            time.sleep(0.02)
    found = sorted(rows_of(wadi.scan("attribution.attributed")))
    expected = batch_join(visits, orders)
    assert found == expected, f"{len(found)} rows, {len(expected)} expected"
    with_channel = sum(row[4] is not None for row in found)
    print(f"{len(found)} orders, {with_channel} with a channel, in {rounds} rounds: equal to the batch join")


main(sys.argv[1])
