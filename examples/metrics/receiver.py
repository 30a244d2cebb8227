"""Prints received metrics, to try pushes without a collector: one line per series whose value has changed.

python receiver.py
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

seen = {}


def series(message):
    for resource in message["resourceMetrics"]:
        for scope in resource["scopeMetrics"]:
            for metric in scope.get("metrics", []):
                kind = next(kind for kind in ("sum", "gauge", "histogram") if kind in metric)
                for point in metric[kind]["dataPoints"]:
                    tags = {tag["key"]: tag["value"]["stringValue"] for tag in point.get("attributes", [])}
                    value = point.get("asInt") or point.get("asDouble") or point.get("count", "0")
                    yield metric["name"], tags.get("id", "-"), value


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        for name, node, value in series(json.loads(self.rfile.read(int(self.headers["Content-Length"])))):
            if seen.get((name, node)) != value:
                seen[name, node] = value
                print(f"{name:45} {node:15} {value}", flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 4318), Handler) as server:
        server.serve_forever()
