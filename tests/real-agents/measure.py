"""Measures one harness: the time from `hd run` to its first prompt at the model, then the cost of an idle session,
of its holder and of the supervisor.

Run by tests/real-agents/run --measure. The city is one that `hd harness test --keep` left; a server in place
of its model refuses every request, so that the program ends its turn and waits at its input.
"""

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

SETTLE = 30
WATCH = 60
TASK = "Measure the idle session"


class Refusing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    first = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if Refusing.first is None and TASK.encode() in body:
            Refusing.first = time.monotonic()
        self.answer(400, b'{"type":"error","error":{"type":"invalid_request_error","code":400,"message":"no"}}')

    def do_GET(self):
        self.answer(404, b"{}")

    do_HEAD = do_GET

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes(home):
    """The processes of this city: pid -> command line. Holders have no environment, but name the city."""
    sign, hold = f"HOME={home}".encode(), f"hold {os.path.dirname(home)}/".encode()
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        command = read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
        if hold in command or sign in read(f"/proc/{pid}/environ").split(b"\0"):
            found[int(pid)] = command.decode(errors="replace")
    return found


def ticks(pid):
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def memory(pid):
    """PSS and RSS in KiB."""
    text = read(f"/proc/{pid}/smaps_rollup").decode()
    value = {key: int(kib) for key, kib in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}
    return value.get("Pss", 0), value.get("Rss", 0)


def kind(pid, command, supervisor):
    if pid == supervisor:
        return "supervisor"
    return "holder" if "horde-supervisor hold" in command else "session"


def kept_city(harness):
    tried = subprocess.run(
        ["hd", "harness", "test", harness, "--case", "start", "--keep"], capture_output=True, text=True
    )
    found = re.search(r"the city is (\S+)", tried.stderr + tried.stdout)
    if not found:
        sys.exit(f"no city was kept: {tried.stdout}{tried.stderr}")
    return found.group(1)


def main(harness):
    city = kept_city(harness)
    home = os.path.join(os.path.dirname(city), "home")
    path = os.path.join(city, "city.toml")
    text = read(path).decode()
    # The supervisor's share is that of its default.
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r'patrol_interval = "\w+"', 'patrol_interval = "30s"', text))
    texts = [text] + [
        read(os.path.join(at, name)).decode(errors="replace")
        for at, _dirs, names in os.walk(home)
        for name in names
        if name.endswith((".json", ".toml"))
    ]
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)", "\n".join(texts)).group(1))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = dict(os.environ, HOME=home, XDG_CONFIG_HOME=f"{home}/.config", XDG_DATA_HOME=f"{home}/.local/share")
    env.update(XDG_STATE_HOME=f"{home}/.local/state", XDG_CACHE_HOME=f"{home}/.cache", HORDE_CITY=city)
    log = open(os.path.join(city, "measured.log"), "wb")
    supervisor = subprocess.Popen(["horde-supervisor", city], env=env, stderr=log, stdout=log)
    try:
        while subprocess.run(["hd", "ping"], env=env, capture_output=True).returncode:
            time.sleep(0.1)
        begun = time.monotonic()
        subprocess.run(["hd", "run", TASK, "--rig", "kit", "-d"], env=env, check=True, capture_output=True)
        while Refusing.first is None:
            if time.monotonic() - begun > 180:
                sys.exit(f"{harness} did not ask its model within 180 s")
            time.sleep(0.02)
        time.sleep(SETTLE)
        before = {pid: ticks(pid) for pid in processes(home)}
        since = time.monotonic()
        time.sleep(WATCH)
        minutes = (time.monotonic() - since) / 60
        told = {}
        for pid, command in processes(home).items():
            used = ticks(pid) - before.get(pid, 0)
            pss, rss = memory(pid)
            row = told.setdefault(
                kind(pid, command, supervisor.pid), {"cpu_s_per_min": 0, "pss_mib": 0, "rss_mib": 0, "processes": 0}
            )
            row["cpu_s_per_min"] += used / os.sysconf("SC_CLK_TCK") / minutes
            row["pss_mib"] += pss / 1024
            row["rss_mib"] += rss / 1024
            row["processes"] += 1
        load = os.getloadavg()[0]
        result = {"harness": harness, "to_first_prompt_s": round(Refusing.first - begun, 2), "load": round(load, 1)}
        for name, row in told.items():
            result[name] = {key: round(value, 2) for key, value in row.items()}
        print(json.dumps(result))
    finally:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(60)


if __name__ == "__main__":
    main(sys.argv[1])
