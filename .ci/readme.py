"""Runs every command of the README, in order, against a server of its own.

Blocks marked `sh` and `python` are run; a block that a `<!-- not run: reason -->` line precedes is not. The README says
`wadi`, `localhost:8080` and a data directory; here they are the built binary, a free port and a temporary directory.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = re.compile(r"(<!-- not run: .*? -->\n)?```(sh|python)\n(.*?)```", re.S)
PLACE = "localhost:8080"


def blocks():
    for skipped, language, text in FENCE.findall((ROOT / "README.md").read_text()):
        if not skipped:
            yield language, text


def start(wadi, work):
    address = work / "address"
    server = subprocess.Popen(
        [wadi, "dev", "--data-dir", work / "data", "--listen", "127.0.0.1:0", "--address-file", address],
        stderr=(work / "log").open("w"),
    )
    for _ in range(300):
        if server.poll() is not None:
            sys.exit((work / "log").read_text())
        try:
            url = address.read_text().strip()
            urllib.request.urlopen(f"{url}/ready").read()
            return server, url
        except OSError:
            time.sleep(0.1)
    sys.exit("the server did not become ready")


def run(language, text, url, env):
    text = text.replace(f"http://{PLACE}", url).replace(PLACE, url)
    if language == "python":
        return subprocess.run([sys.executable, "-c", text], cwd=ROOT, env=env, capture_output=True, text=True)
    return subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=ROOT, env=env, capture_output=True, text=True)


def main():
    wadi = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        server, url = start(wadi, work)
        # PORT=0: the cluster's example takes free ports.
        env = {**os.environ, "WADI_URL": url, "PORT": "0", "PATH": f"{wadi.parent}:{os.environ['PATH']}"}
        count = 0
        try:
            for language, text in blocks():
                done = run(language, text, url, env)
                if done.returncode != 0:
                    sys.exit(f"this block of the README failed:\n{text}\n{done.stdout}\n{done.stderr}")
                count += 1
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
    assert count > 10, "the README has lost its commands"
    print(f"{count} passed, 0 failed")


main()
