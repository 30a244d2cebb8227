"""Two endpoints for the example: `/score` returns rows with a score, `/events` prints what it receives.

python server.py
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def score(order):
    return {**order, "score": f"{order['amount'] / 1000:.2f}", "country": order["country"].upper()}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/score":
            self.reply(json.dumps([score(order) for order in body]).encode())
        else:
            print(json.dumps(body), flush=True)
            self.reply(b"")

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 8099), Handler) as server:
        server.serve_forever()
