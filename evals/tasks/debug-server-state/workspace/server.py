import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlparse

CARTS = {}


def cart(name, items=[]):
    return CARTS.setdefault(name, items)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlparse(self.path)
        query = dict(parse_qsl(url.query))
        items = cart(query["cart"])
        if url.path == "/add":
            items.append(query["item"])
        body = json.dumps(len(CARTS) if url.path == "/count" else items).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
