#!/usr/bin/env python3
# Debian's prometheus scrapes a server with the files of docs/monitoring, and answers the dashboard.
# SPDX-License-Identifier: Apache-2.0
"""Usage: prometheus_test.py BUILD PROMETHEUS PROMTOOL. Exit code 77 where these are not."""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scrape import free_port, guest, scrape, server_with_metrics  # noqa: E402
from harness import environment, expect, until  # noqa: E402

FILES = pathlib.Path(__file__).resolve().parents[2] / "docs/monitoring"
PROMETHEUS, PROMTOOL = sys.argv[2:4]
METRIC = re.compile(r"\b((?:vgpu|gpu|DCGM)_[A-Za-z0-9_]+)\b")


def check_files():
    for words in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"],
                  ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([PROMTOOL, *words], cwd=FILES, capture_output=True, text=True)
        expect(done.returncode == 0, f"promtool {' '.join(words)}", done)


def dashboard_queries():
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    queries = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    expect(len(queries) > 20 and len(set(places)) == len(places), "the dashboard's panels")
    values = [re.match(r"label_values\((\w+), (\w+)\)", v["query"])
              for v in dashboard["templating"]["list"] if v["type"] == "query"]
    return queries, [(match[1], match[2]) for match in values]


@contextlib.contextmanager
def prometheus(target):
    """Prometheus with our configuration, but for the server's port and the interval."""
    with tempfile.TemporaryDirectory(prefix="vgpu-prometheus-") as folder:
        folder = pathlib.Path(folder)
        shutil.copy(FILES / "alerts.yml", folder)
        config = (FILES / "prometheus.yml").read_text()
        expect("127.0.0.1:19464" in config and "15s" in config, "the example's port and interval")
        (folder / "prometheus.yml").write_text(
            config.replace("127.0.0.1:19464", target).replace("15s", "1s"))
        own = f"127.0.0.1:{free_port()}"
        with open(folder / "log", "w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address={own}"],
                env=environment(), stdout=log, stderr=log)
            try:
                yield own
            except BaseException:
                log.seek(0)
                sys.stderr.write(log.read()[-4000:])
                raise
            finally:
                process.kill()
                process.wait()


def query(own, expression):
    """The vector that Prometheus answers; the test fails when it does not parse."""
    url = f"http://{own}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        if error.code == 503:  # it starts
            raise
        return expect(False, f"{expression}: {error.read().decode()}")


def ready(own):
    try:
        return bool(query(own, "rate(vgpu_sm_time_seconds_total[30s])"))
    except OSError:
        return False


def check_queries(own, known):
    queries, variables = dashboard_queries()
    for expression in queries:
        for name in METRIC.findall(re.sub(r"\{[^}]*\}", "", expression)):
            expect(name in known, f"{name} is not served") if name not in known else None
        filled = expression.replace("$__rate_interval", "30s").replace("$instance", ".*").replace(
            "$tenant", ".*")
        expect(query(own, filled), f"data for {filled}")
    for metric, label in variables:
        expect(all(label in row["metric"] for row in query(own, metric)) and query(own, metric),
               f"values of {label}")


def check_rules(own, known):
    with urllib.request.urlopen(f"http://{own}/api/v1/rules", timeout=10) as answer:
        rules = json.load(answer)["data"]["groups"][0]["rules"]
    expect(len(rules) > 5, "the rules are loaded")
    for rule in rules:
        names = METRIC.findall(re.sub(r"\{[^}]*\}", "", rule["query"]))
        expect(all(name in known for name in names), f"metrics of {rule['name']}: {names}")
        expect(rule["state"] != "firing", f"{rule['name']} is quiet")


def main():
    if "NOTFOUND" in PROMETHEUS or "NOTFOUND" in PROMTOOL:
        print("skipped: no prometheus or promtool (tools/install_dependencies.sh takes them)")
        sys.exit(77)
    check_files()
    with server_with_metrics() as (address, target), \
            guest(address, "blue", "256M", 100), guest(address, "red", "128M", 10, "idle"):
        known = set(scrape(target))
        with prometheus(target) as own:
            until(lambda: ready(own), "two scrapes")
            check_queries(own, known)
            check_rules(own, known)


if __name__ == "__main__":
    main()
