"""Puts what tests/unit/wandb_test.cc wrote through wandb itself, with a server on this machine.

Usage: wandb_test.py RUN EXPECTED.json. RUN is a run's folder, with event files for TensorBoard too.
EXPECTED has the run's id, project, name and config, and its rows: key to number, "_step" included.
Exit status 0: as expected, 1: not, 77: no wandb here.
"""

import atexit
import glob
import gzip
import http.server
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

try:
    import wandb
    from wandb.proto import wandb_internal_pb2
except ImportError:
    sys.exit(77)


class Server(http.server.ThreadingHTTPServer):
    """As much of W&B's server as an upload asks for: it keeps a run's rows."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.clear()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def clear(self):
        self.rows = []
        self.runs = []  # variables of each UpsertBucket
        self.exit_codes = []

    def graphql(self, query, given):
        if "upsertBucket" in query:
            self.runs.append(given)
            entity = {"id": "e", "name": given["entity"] or "someone"}
            project = {"id": "p", "name": given["project"], "entity": entity}
            bucket = {"id": "b", "name": given["name"], "displayName": given["displayName"],
                      "description": None, "config": "{}", "sweepName": None, "project": project,
                      "historyLineCount": len(self.rows)}
            return {"upsertBucket": {"bucket": bucket, "inserted": not self.rows}}
        if "createRunFiles" in query:
            files = [{"name": f, "uploadUrl": f"{self.url}/file/{f}"} for f in given["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        viewer = {"id": "u", "entity": "someone", "username": "someone", "email": "", "flags": "{}",
                  "admin": False, "teams": {"edges": []}}
        return {"viewer": viewer, "serverInfo": {"features": [], "latestLocalVersionInfo": None,
                                                 "cliVersionInfo": {"max_cli_version": "9.9.9"}}}

    def stream(self, body):
        history = body.get("files", {}).get("wandb-history.jsonl")
        if history:
            self.rows[history["offset"]:] = [json.loads(line) for line in history["content"]]
        if body.get("complete"):
            self.exit_codes.append(body["exitcode"])


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        out = {}
        if self.path == "/graphql":
            asked = json.loads(body)
            out = {"data": self.server.graphql(asked["query"], asked.get("variables") or {})}
        elif self.path.endswith("/file_stream"):
            self.server.stream(json.loads(body))
        reply = json.dumps(out).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


def records(path):
    """The records of a .wandb file."""
    data = open(path, "rb").read()
    assert data[:7] == b":W&B\xe1\xbe\0", data[:7]
    at, whole = 7, b""
    while True:
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        if at >= len(data):
            return
        checksum, length, kind = struct.unpack("<IHB", data[at:at + 7])
        part = data[at + 7:at + 7 + length]
        assert checksum == zlib.crc32(bytes([kind]) + part), at
        whole += part
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def rows_of(path):
    rows = []
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
            assert rows[-1].get("_step", record.history.step.num) == record.history.step.num
    return rows


def number(value):
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def check_rows(rows, expected, prefix="", single=False):
    """Every expected row, in order; `single`: of numbers that went through 32-bit floats."""
    assert len(rows) == len(expected), (len(rows), len(expected), rows[-1:])
    for row, want in zip(rows, expected):
        for key, value in want.items():
            have = number(row[key if key.startswith("_") else prefix + key])
            value = number(value)
            if single and not key.startswith("_"):
                value = struct.unpack("f", struct.pack("f", value))[0]
                assert math.isclose(have, value, rel_tol=1e-6), (key, have, value)
            else:
                assert have == value or (have != have and value != value), (key, have, value)


def merged(rows, step_key, left_out):
    """One row a step, where there may be one a number."""
    out = {}
    for row in rows:
        if row.get(step_key, left_out[0]) not in left_out:
            out.setdefault(row[step_key], {"_step": row[step_key]}).update(
                {k: v for k, v in row.items() if not k.startswith("_")})
    return [out[step] for step in sorted(out)]


def sync(server, *arguments):
    server.clear()
    command = [sys.executable, "-m", "wandb", "sync", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def read_offline(project, run_id, board, folder):
    """The rows that a run of wandb in offline mode takes from a folder of event files."""
    os.mkdir(folder)
    settings = wandb.Settings(console="off", x_disable_stats=True, silent=True)
    session = wandb.init(project=project, id=run_id, dir=folder, settings=settings)
    session._tensorboard_callback(board, save=False, root_logdir=board)
    session.finish()
    (log,) = glob.glob(f"{folder}/wandb/offline-run-*-{run_id}/run-{run_id}.wandb")
    return rows_of(log)


def main(run, expected_path):
    expected = json.load(open(expected_path))
    run_id = expected["id"]
    sessions = sorted(glob.glob(f"{run}/wandb/offline-run-*-{run_id}"))

    # The logs as they lie.
    logs = [f"{session}/run-{run_id}.wandb" for session in sessions]
    check_rows([row for log in logs for row in rows_of(log)], expected["rows"])
    try:
        from wandb.sdk.internal import datastore  # in versions up to 0.29
    except ImportError:
        datastore = None
    for log in logs if datastore else []:
        store = datastore.DataStore()
        store.open_for_scan(log)
        seen = list(iter(store.scan_data, None))
        assert seen == [r.SerializeToString(deterministic=True) for r in records(log)], log

    server = Server()
    work = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, work, ignore_errors=True)
    os.environ.update(WANDB_BASE_URL=server.url, WANDB_API_KEY="0" * 40, WANDB_DIR=work,
                      WANDB_ERROR_REPORTING="false", HOME=work, NO_PROXY="127.0.0.1",
                      no_proxy="127.0.0.1")

    # Uploaded: all sessions are one run, and all its rows arrive, in order.
    sync(server, *sessions)
    check_rows(server.rows, expected["rows"])
    for given in server.runs:
        assert (given["name"], given["project"]) == (run_id, expected["project"]), given
    assert server.runs[0]["displayName"] == expected["name"], server.runs[0]
    config = json.loads(server.runs[0]["config"])
    for key, value in expected["config"].items():
        assert config[key]["value"] == value, config
    assert server.exit_codes == expected["exit_codes"], server.exit_codes
    assert all(os.path.exists(log + ".synced") for log in logs)
    assert "No runs to sync" in sync(server, *sessions) and not server.rows

    # The event files of TensorBoard, by wandb's own readers. Of a step that both sessions have they
    # keep the first session's numbers: those are left out.
    once = [row for row in expected["rows"] if row["_step"] not in expected["repeated"]]
    if datastore:
        # Up to 0.29, `wandb sync` takes them: uploaded into the same run.
        sync(server, "--sync-tensorboard", "--project", "p", "--id", run_id, run)
        assert {given["name"] for given in server.runs} == {run_id}
        rows = merged(server.rows, "global_step", expected["repeated"])
        check_rows(rows, once, prefix=os.path.basename(run) + "/", single=True)
        return
    # Later ones read them in the program that trains: here in offline mode, going on with the run.
    # Event files from before it began, as their names tell, would be passed over.
    board = f"{work}/board"
    os.mkdir(board)
    for name in glob.glob("events.out.tfevents.*", root_dir=run):
        parts = name.split(".")
        parts[3] = str(int(parts[3]) + 1000000)
        shutil.copy(f"{run}/{name}", f"{board}/{'.'.join(parts)}")
    os.environ["WANDB_MODE"] = "offline"
    # A run that finishes at once may lose the last rows inside wandb: then once more.
    for attempt in range(10):
        rows = read_offline(expected["project"], run_id, board, f"{work}/{attempt}")
        rows = merged(rows, "global_step", expected["repeated"])
        if len(rows) == len(once):
            break
    check_rows(rows, once, single=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
